"""What decides: scheduling algorithms, and the contract they are written against.

Pure Python: no I/O, no clock, no threads, no HTTP, no Kubernetes client. Read `interface.py` first.
"""
