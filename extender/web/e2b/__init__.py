"""E2B's API on top of claims: a sandbox is a claim of one pod, a template is a pool. See docs/e2b.md."""
