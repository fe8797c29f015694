"""The HTTP API of vpods: sets and their vpods, dry runs, and explanations. It reads, and changes nothing."""
