"""What runs: the loop that owns the engine (lock, timer, dispatch), service, leadership, reload, comparer."""
