"""Comparing resourceVersions: which of two records of the API server is the older one.

Kubernetes promises since 1.35 (KEP-5504) that resourceVersions of one resource type are decimal numbers that grow,
and etcd has always given such. Whatever is not a number cannot be compared; then nothing is called older, because
taking a record twice is harmless and leaving one out is not.
"""

from __future__ import annotations

from collections.abc import Iterable


def older(version: str, than: str) -> bool:
    """Whether `version` is certainly from before `than`; False where they cannot be compared."""
    if not (version.isdigit() and than.isdigit() and version.isascii() and than.isascii()):
        return False
    if len(version) == len(than):
        return version < than
    width = max(len(version), len(than))
    return version.zfill(width) < than.zfill(width)


def latest(versions: Iterable[str]) -> str | None:
    """The newest of them, "0" if there are none; None if one of them cannot be compared."""
    numbers = set(versions)
    if not all(version.isascii() and version.isdigit() for version in numbers):
        return None
    return max(numbers, key=lambda version: (len(version.lstrip("0")), version.lstrip("0")), default="0")
