"""The aims that every attack must meet, and the check of a run against them."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Seconds in which a valid /filter on another connection is answered, at p99.
P99_SECONDS = 0.1
#: The share of the CPU time asked for that a machine may withhold and still be judged by that aim. With a quarter and
#: more withheld, the p99 of one attack was seen to go from 10 to 800 ms.
MOST_WITHHELD = 0.1
#: Seconds that are too long on every machine.
P99_ANYWHERE = 2.0
#: MiB of resident memory: a third of the limit in manifests/.
MOST_MIB = 512
#: MiB that may be there more than before, once the attacker has left: the allocator keeps some.
LEFT_MIB = 64
#: File descriptors and threads that may be there more than before: connections to the API server come and go.
LEFT_DESCRIPTORS = 8
LEFT_THREADS = 45  # the thread pool for pages keeps up to 40 for some seconds


@dataclass(frozen=True)
class Usage:
    """What the server's process holds at one moment."""

    mib: float
    descriptors: int
    threads: int


@dataclass(frozen=True)
class Figures:
    """What was measured during one attack. `latencies`: seconds from when each valid /filter was due to its answer."""

    latencies: tuple[float, ...]
    errors: tuple[str, ...]
    before: Usage
    peak_mib: float
    after: Usage
    log_bytes: int
    seconds: float
    #: The share (0 to 1) of CPU time that the machine did not give meanwhile.
    withheld: float = 0.0

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 0.99)

    @property
    def was_held_up(self) -> bool:
        """Whether a late answer may be the machine's doing."""
        return self.withheld > MOST_WITHHELD and self.p99 <= P99_ANYWHERE

    @property
    def worst(self) -> float:
        return max(self.latencies, default=0.0)


def percentile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed; 0 of none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def missed(figures: Figures, left_mib: float = LEFT_MIB) -> list[str]:
    """The aims that were missed, in words."""
    found = []
    if not figures.latencies:
        found.append("no valid /filter was answered")
    if figures.p99 > P99_SECONDS:
        found.append(f"a valid /filter took {figures.p99 * 1000:.0f} ms at p99 (aim {P99_SECONDS * 1000:.0f})")
    if figures.errors:
        found.append(f"{len(figures.errors)} valid /filter failed, the first: {figures.errors[0]}")
    if figures.peak_mib > MOST_MIB:
        found.append(f"{figures.peak_mib:.0f} MiB resident (aim {MOST_MIB})")
    return found + _left(figures.before, figures.after, left_mib)


def _left(before: Usage, after: Usage, left_mib: float) -> list[str]:
    """What stayed behind."""
    found = []
    if after.mib > before.mib + left_mib:
        found.append(f"{after.mib - before.mib:.0f} MiB stayed behind (aim {left_mib:.0f})")
    if after.descriptors > before.descriptors + LEFT_DESCRIPTORS:
        found.append(f"{after.descriptors - before.descriptors} file descriptors stayed behind")
    if after.threads > before.threads + LEFT_THREADS:
        found.append(f"{after.threads - before.threads} threads stayed behind")
    return found
