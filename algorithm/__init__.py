"""Scheduling algorithms, and the contract that they implement.

Pure Python: no I/O, no clock, no threads, no HTTP, no Kubernetes client. Read `interface.py` first.
"""
