"""Plans in the server: what would happen if something were applied, answered by a child process from a copy."""
