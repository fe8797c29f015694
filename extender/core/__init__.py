"""What all engines share: pure, and without a word about pods.

No socket, no sleep, no lock, no clock: time is a parameter (seconds, monotonic). Threads and locks live in the I/O
layers (`extender.server.loop`). The same events give the same instructions, byte for byte: every bug can be replayed.

    engine.py      the engine protocol: what an engine gives, and what the loop that runs it relies on
    outcomes.py    how a write to the API server ended
    ledger.py      holds with tokens: who may write, and until when
    wait_index.py  who waits on what, so that nothing polls
    freshness.py   which of two records of the API server is the newer one
"""
