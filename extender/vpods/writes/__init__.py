"""The commands of the engine of vpods, one kind a file."""
