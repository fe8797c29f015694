"""The state that changes: groups and their devices, quota, lost quota, and the recovery of all this at a start."""
