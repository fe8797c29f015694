"""The running server: the loop that owns the engine (lock, timer, dispatch), service, leadership, reload, comparer."""
