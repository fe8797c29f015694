"""What `waggle new-algorithm` writes: a package with an algorithm, its tests, a workload and configurations.

`slots.py` is the algorithm, the 40 lines of docs/plugin-authors.md; `files/` has everything else, with `<name>` and
`<distribution>` where the names stand.
"""
