"""Where kube-scheduler runs, seen from Waggle, and where the shipped manifests put Waggle.

For the command line, which every command reads, `serve` too: what these are used for is imported when it is asked for.
"""

from __future__ import annotations

from enum import StrEnum

#: Where the shipped manifests put Waggle.
NAMESPACE = "waggle-system"


class Topology(StrEnum):
    """Where kube-scheduler runs, seen from Waggle."""

    STATIC_POD = "static-pod"
    SECOND_SCHEDULER = "second-scheduler"
    LOCAL = "local"
