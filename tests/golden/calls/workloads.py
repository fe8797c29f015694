"""All workloads by name."""

from __future__ import annotations

from tests.golden.calls import binding, filtering, preempting, retrying, waggles
from tests.golden.calls.play import Workload

WORKLOADS: dict[str, Workload] = {
    **filtering.WORKLOADS,
    **retrying.WORKLOADS,
    **binding.WORKLOADS,
    **preempting.WORKLOADS,
    **waggles.WORKLOADS,
}
