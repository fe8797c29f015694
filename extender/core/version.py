"""Comparing resourceVersions: which of two records of the API server is the older one.

Kubernetes promises since 1.35 (KEP-5504) that resourceVersions of one resource type are decimal numbers that grow,
and etcd has always given such. Whatever is not a number cannot be compared; then nothing is called older, because
taking a record twice is harmless and leaving one out is not.
"""

from __future__ import annotations


def older(version: str, than: str) -> bool:
    """Whether `version` is certainly from before `than`; False where they cannot be compared."""
    left, right = _rank(version), _rank(than)
    return left is not None and right is not None and left < right


def _rank(version: str) -> tuple[int, str] | None:
    """Orders decimal texts of any length as numbers; None if it is not one."""
    if not (version.isascii() and version.isdigit()):
        return None
    digits = version.lstrip("0")
    return len(digits), digits
