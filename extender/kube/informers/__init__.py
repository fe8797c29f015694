"""Informers: list and watch, kept in step through every fault, within a bounded memory."""
