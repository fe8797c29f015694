"""What the machine gave: a virtual machine asks its host for CPU time and does not always get it.

Linux counts the time that was asked for and not given as "steal" (proc(5), /proc/stat). A machine that withholds a
third of it has fewer than the two cores that the aims are stated for, and then nobody can say whether the server was
slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class CpuTime:
    """CPU time of the whole machine since it started, in clock ticks. `asked`: used or withheld."""

    asked: int
    withheld: int


def cpu_time() -> CpuTime:
    """What was counted until now; nothing where the system does not count."""
    if not _STAT.is_file():
        return CpuTime(0, 0)
    user, nice, system, _, _, irq, softirq, steal = map(int, _STAT.read_text().split(maxsplit=9)[1:9])
    return CpuTime(user + nice + system + irq + softirq + steal, steal)


def withheld(before: CpuTime, after: CpuTime) -> float:
    """The share (0 to 1) of the CPU time asked for between the two moments that was not given."""
    asked = after.asked - before.asked
    return (after.withheld - before.withheld) / asked if asked else 0.0
