"""The HTTP API of plans: what would happen if something were applied. It changes nothing."""
