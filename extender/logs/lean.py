"""Imports structlog without rich, which it would import for tracebacks in colours, and which takes longer than itself.

Nothing of that is ever used: tracebacks are text by the time structlog sees them (setup.py).
"""

from __future__ import annotations

import importlib
import sys


def import_structlog() -> None:
    """Import structlog without rich. Does nothing if either is imported already."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # "it cannot be imported", for the import system
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
