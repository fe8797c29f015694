"""The run of a simulation: jobs come, run, are evicted and end, in virtual time."""
