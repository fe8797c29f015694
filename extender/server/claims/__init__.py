"""Runs the engine of claims: its loop, its informers, its writes, its metrics."""
