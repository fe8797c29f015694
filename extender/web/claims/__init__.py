"""Claims over HTTP: bodies, callers and their tenants, calls that wait, routes."""
