"""Where a gang goes."""
