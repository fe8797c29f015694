"""The HTTP layer: sockets, TLS, HTTP/1.1 and HTTP/2, and the bounds of each."""
