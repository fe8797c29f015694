"""What all callers share, and how much of it one of them may take: memory, threads, turns of the loop."""
