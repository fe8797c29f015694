"""The client of the API server: requests, answers, their bounds, and how each ended."""
