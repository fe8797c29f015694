"""The contents of annotations: reads and writes the original's formats."""
