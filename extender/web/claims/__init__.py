"""Claims over HTTP: bodies, callers and their tenants, calls to the engine, routes."""
