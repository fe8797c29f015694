"""Leadership by a Lease."""
