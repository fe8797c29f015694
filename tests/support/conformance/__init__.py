"""Plug-ins with which the conformance kit itself is tried."""
