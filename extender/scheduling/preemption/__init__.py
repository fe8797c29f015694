"""Preemptions that the server carries out by itself: planned, executed, ended, taken up again by the next term."""
