"""Attacks: what one hostile client, pod author or API server can do to a server that runs, and what it costs.

    python -m tests.attacks [--only WORD ...] [--list] [--json FILE] [--server waggle | uvicorn]

Each attack runs against a `waggle serve` of its own process with 50 nodes. Meanwhile another process asks a valid
`/filter` a hundred times a second on a connection of its own and samples the server's memory. Each attack prints what
the server did, its resident memory before, at most and after, and how long the valid `/filter` took.

Every attack must meet the same aims (`aims.py`):

* the valid `/filter` is answered within 100 ms at p99, and without an error;
* resident memory stays below 512 MiB;
* nothing stays behind when the attacker leaves: file descriptors, threads and memory come back.

What was only late is tried again. Where the machine itself withheld CPU time at each try (`machine.py`), the attack is
printed as `late` and counted as undecided, unless the answer took seconds.

To add an attack, write a function in the module of its family (`http1.py`, `http2.py`, `memory.py`, `doors.py`,
`clients.py`, `pods.py`, `hived.py`, `apiserver.py`, `logs.py`; `catalogue.py` imports them all):

    @attack("72,727 pipelined verbs in one burst", limit="one answer a loop turn")
    def pipelined(arena: Arena) -> str:
        with arena.connect() as connection:
            connection.sendall(BURST)
            ...
        return "each answered, reading paused meanwhile"

It returns in a few words what the server did, and raises AssertionError if that was wrong. It takes 2 to 6 seconds, is
bounded, and closes what it opened. `quick=True` makes it part of `make test`. Attackers prepare their bytes first and
send large pieces: the attacker's own CPU is taken from the server on a machine with two cores.
"""
