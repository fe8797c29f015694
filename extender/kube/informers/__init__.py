"""Informers: list and watch, kept consistent with the API server through every fault, within bounded memory."""
