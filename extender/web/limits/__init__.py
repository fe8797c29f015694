"""Resources that all callers share, and how much of each one caller may take: memory, threads, turns of the event
loop."""
