"""Preemptions that the server carries out by itself: planned, executed, ended, resumed in the next term."""
