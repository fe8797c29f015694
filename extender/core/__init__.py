"""The parts that all engines share: pure, and independent of pods.

No socket, no sleep, no lock, no clock: time is a parameter (seconds, monotonic). Threads and locks live in the I/O
layers (`extender.server.loop`). The same events give the same instructions, byte for byte: every bug can be replayed.

    engine.py        the engine protocol: the interface between an engine and the loop that runs it
    requests.py      requests to the API server as plain data, and the paths of resources
    commands.py      commands for the API server: how each kind becomes a request, and its outcome a report
    outcomes.py      the outcome of a write to the API server
    event_series.py  which Kubernetes Events to write of things that happen again and again
    ledger.py        holds with tokens and leases: the right to write, and its deadline
    deadlines.py     when something is due, by key: the only timer mechanism
    wait_index.py    waiters by the keys that they wait on, so that nothing polls
    ordering_names.py  the annotation and the gate of start-up ordering
    freshness.py     which records of the API server are late: older than what it has shown, or of what is gone
"""
