"""What Waggle decided before the house was rebuilt: frozen recordings that every later Waggle is held against.

    seeded simulation --> event, instructions, next wake-up --> recordings/*.jsonl.gz   (python -m tests.frozen --write)
                                                                       |
             replay: its events into a fresh engine  <-----------------+--------> again: the same seeds once more
             the instructions are the same                                        events and instructions are the same

A recording is plain JSON, one step a line; every object names its kind (`"is": "FilterRequested"`), and nothing else in
it names a module or a class. What a later Waggle calls otherwise is said in one table, `words.py`: the recording is
put into today's words and then compared byte for byte. `today.py` is the only module that imports the engine.

Promises: the bytes do not depend on the order of sets (PYTHONHASHSEED), on workers that run beside, or on the version
of Python. Replay needs the engine and the algorithm only; `again` needs the informers, writes and election as well.
"""
