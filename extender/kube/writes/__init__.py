"""Writes to the API server: queued, throttled, fenced by the term, and reported exactly once."""
