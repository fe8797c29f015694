"""An independent adversary of claims: it knows docs/claims.md, and nothing of the engine.

    python -m tests.conformance.claims_adversary --seconds 60 --seed 7 [--processes] [--calm] [--trace]

It claims over HTTP, on sockets, at one to three servers; behind them, it changes pods, workloads, nodes and Claim
objects at the embedded API server, and makes that fail. It believes only what the API server wrote, write by write.

    world.py     draws a world: pools, modes, orders, caps, servers in threads or processes
    ledger.py    which pod belonged to which claim, and when, by the API server's store
    callers.py   every request, and its answer
    objects.py   Claims that are objects
    storm.py     many things at once, and the rest afterwards
    calm.py      one thing after the other, with an oracle that says what comes next
    judge.py     what must hold of every answer, of every look, and at rest
    search.py    runs

A seed is the same world, and the same steps with the same arguments. Which of two calls arrives first differs from run
to run, so that a failure may need several runs of its seed: `--trace` prints what happened in the one that failed.
"""
