"""Logs: how lines are written, how many at most, and how untrusted text is made printable."""
