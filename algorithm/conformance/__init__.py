"""What an author of an algorithm proves it with, without a cluster: `harness.py`. Imports no test library."""
