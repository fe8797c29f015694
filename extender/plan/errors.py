"""Why a plan cannot be made."""

from __future__ import annotations


class PlanError(ValueError):
    """The input is wrong. The message names the file, the document and the field, and what was expected."""
