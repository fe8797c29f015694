"""Logs: how they are written, how many lines at most, and how a stranger's text is made printable."""
