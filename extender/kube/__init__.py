"""The API server: how it is reached, what it tells (reflectors), what is written to it (committer)."""
