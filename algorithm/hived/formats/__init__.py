"""What stands in annotations: the original's formats, read and written."""
