"""Decides where a gang goes."""
