"""Checks the labels, annotations and images of a claim: Kubernetes must accept them, and none may be Waggle's own.

Pure functions, which return a text with the field, what was expected, and the value; "" if all is well. The HTTP layer,
custom resources and the engine all use them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from extender.claims.records import Pairs

#: How many labels, and how many annotations, a claim may set on a pod; and the bytes of all its annotations. Kubernetes
#: accepts 256 KiB of annotations on a pod, and the pod has some of its own.
MOST_NAMES = 64
MOST_BYTES = 64 * 1024

_OURS = "waggle.dev"
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SHOWN = 80


def wrong_labels(labels: Pairs, *, reserved: Collection[str] = (), field: str = "labels") -> str:
    """Return what is wrong with these labels. `reserved`: the names in the pool's selector."""
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
    """Return what is wrong with these images. Kubernetes accepts every text without leading and trailing blanks."""
    if len(images) > MOST_NAMES:
        return f"{field}: expected at most {MOST_NAMES}, got {len(images)}"
    if len({name for name, _ in images}) < len(images):
        return f"{field}: a container is given twice"
    for name, image in images:
        if not image or image != image.strip() or len(image) > 4096:
            return f"{field}.{name[:_SHOWN]}: expected an image, got {image[:_SHOWN]!r}"
    return ""
