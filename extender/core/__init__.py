"""The scheduling heart, sans-I/O: events in, instructions out.

No socket, no sleep, no lock, no clock: time is a parameter (seconds, monotonic), threads and locks live at the rim
(`extender.server.runtime`). The same events give the same instructions, byte for byte, so every bug can be replayed.

    events.py      what can happen, and what the heart then wants done
    lifecycle.py   Waiting / Preempting / Binding / Bound: one transition table
    cache.py       what is true now, counting what was decided and is not confirmed yet
    ledger.py      holds with tokens: who may write, and until when
    wake.py        who waits on what, so that nothing polls
"""
