"""Fails at its import, with many words."""

raise ValueError("a" * 5_000_000)
