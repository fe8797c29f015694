"""Compares resourceVersions: which of two records of the API server is the older one.

Since 1.35 (KEP-5504) Kubernetes promises that the resourceVersions of one resource type are decimal numbers that grow;
etcd has always produced such numbers. Any other text cannot be compared. Then neither version counts as older, because
handling a record twice is harmless and dropping one is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: The highest known resourceVersion of each resource, by its name ("pods", "claims.waggle.dev"); "0" where there is no
#: object. These are versions of objects, not of lists: a replica that watches has reached them as soon as it has
#: received the last of these objects. A leader leaves them to the next one.
HandoverVersions = Mapping[str, str]


def older(version: str, than: str) -> bool:
    """Whether `version` is certainly older than `than`; False if they cannot be compared."""
    if not (version.isdigit() and than.isdigit() and version.isascii() and than.isascii()):
        return False
    if len(version) == len(than):
        return version < than
    width = max(len(version), len(than))
    return version.zfill(width) < than.zfill(width)


def latest(versions: Iterable[str]) -> str | None:
    """The newest of these versions; "0" if there are none, None if one of them cannot be compared."""
    numbers = set(versions)
    if not all(version.isascii() and version.isdigit() for version in numbers):
        return None
    return max(numbers, key=lambda version: (len(version.lstrip("0")), version.lstrip("0")), default="0")
