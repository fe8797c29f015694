"""The client of the API server: requests, responses, their bounds, and how each request ended."""
