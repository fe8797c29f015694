"""Where the kube-scheduler stand-in knowingly does otherwise than a real kube-scheduler, and why. The only such list.

A key is a workload; a value is (paths in its result that may differ, why). A deviation that is no longer one fails the
test as well.
"""

from __future__ import annotations

DEVIATIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "deleted-while-filter-is-asked": (
        ("events[1][4]",),
        "the stand-in takes in what happens between attempts, so it still looks for victims for a pod that is gone",
    ),
}
