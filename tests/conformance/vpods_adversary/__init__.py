"""An independent adversary of vpods: it knows their specification and their objects, and nothing of the engine.

    python -m tests.conformance.vpods_adversary --seed 7 --storms 3 [--seeds N] [--no-faults] [--trace]

One to three servers are processes, beside an embedded API server. The adversary changes VPods, StatefulSets, pods and
nodes there, writes nonsense into status, makes requests fail, and kills servers. It believes only what the API server
wrote, write by write.

    world.py     draws a world: sets, zones, bounds, servers; and what one can do to it
    history.py   every write of the API server, and whether it was the adversary's
    judge.py     what must hold of every write, and at rest
    pages.py     what every server says over HTTP at rest
    storm.py     many things in a short time, and the rest afterwards
    search.py    runs

A seed is the same world and the same steps with the same arguments. What the servers do in between differs from run to
run, so that a failure may need several runs of its seed: `--trace` prints what happened in the one that failed.
"""
