"""What changes: groups and their devices, quota, what was lost of it, and how a start finds all that again."""
