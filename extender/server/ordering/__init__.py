"""Runs the engine of start-up ordering: loop, terms, informers, writes, and what is said about pods that wait."""
