"""The API server: the client that reaches it, the informers that read from it, the committer that writes to it."""
