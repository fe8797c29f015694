"""The server of vpods: runs the engine of `extender.vpods` in front of an API server."""
