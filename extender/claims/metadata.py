"""Which labels and annotations a claim may put on its pods: those that Kubernetes accepts, and none of Waggle's own.

Pure functions that return what is wrong, "" if nothing is: the field, what was expected, and what was got. The HTTP
layer, custom resources and the engine ask them alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from extender.claims.records import Pairs

#: How many labels, and how many annotations, a claim may put on a pod; and bytes of all its annotations. Kubernetes
#: accepts 256 KiB on a pod, of which some are the pod's own.
MOST_NAMES = 64
MOST_BYTES = 64 * 1024

_OURS = "waggle.dev"
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SHOWN = 80


def wrong_labels(labels: Pairs, *, reserved: Collection[str] = (), field: str = "labels") -> str:
    """Return what is wrong with these labels. `reserved`: names by which the pool selects its pods."""
    wrong = _wrong_names(labels, field)
    if wrong:
        return wrong
    for name, value in labels:
        if name in reserved:
            return f"{field}: {name} is a label by which the pool selects its pods"
        if value and not _NAME.fullmatch(value):
            return f"{field}.{name}: expected up to 63 letters, digits, '-', '_' and '.', got {value[:_SHOWN]!r}"
    return ""


def wrong_annotations(annotations: Pairs, *, field: str = "annotations") -> str:
    """Return what is wrong with these annotations."""
    size = sum(len(name.encode()) + len(value.encode(errors="replace")) for name, value in annotations)
    if size > MOST_BYTES:
        return f"{field}: expected at most {MOST_BYTES} bytes, got {size}"
    return _wrong_names(annotations, field)


def _wrong_names(pairs: Pairs, field: str) -> str:
    if len(pairs) > MOST_NAMES:
        return f"{field}: expected at most {MOST_NAMES}, got {len(pairs)}"
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return f"{field}: {name} is given twice"
        seen.add(name)
        prefix, slash, rest = name.rpartition("/")
        if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
            return f"{field}: the prefix of a name must be a DNS name, got {name[:_SHOWN]!r}"
        if not _NAME.fullmatch(rest):
            return f"{field}: a name has up to 63 letters, digits, '-', '_' and '.', got {name[:_SHOWN]!r}"
        if prefix == _OURS or prefix.endswith("." + _OURS):
            return f"{field}: names with the prefix {_OURS} are Waggle's own, got {name[:_SHOWN]!r}"
    return ""


def wrong_images(images: Pairs, *, field: str = "images") -> str:
    """Return what is wrong with these images by container. Kubernetes accepts every text without blanks around it."""
    if len(images) > MOST_NAMES:
        return f"{field}: expected at most {MOST_NAMES}, got {len(images)}"
    if len({name for name, _ in images}) < len(images):
        return f"{field}: a container is given twice"
    for name, image in images:
        if not image or image != image.strip() or len(image) > 4096:
            return f"{field}.{name[:_SHOWN]}: expected an image, got {image[:_SHOWN]!r}"
    return ""
