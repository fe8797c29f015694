"""How much memory the container still has, so that a plan does not take what the server needs.

The kernel ends a whole container whose memory is used up, as a rule. So a plan begins only if its limit fits.
"""

from __future__ import annotations

from pathlib import Path

#: Where the limits of this process's control group are: version 2, and version 1.
_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)


def left(root: Path = Path("/")) -> int | None:
    """Return the bytes that the container may still take; None if it has no limit, or if that is not known."""
    for names in _FILES:
        most, used, stat = (root / name.lstrip("/") for name in names)
        try:
            limit = int(most.read_text("ascii"))
            taken = int(used.read_text("ascii"))
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
        # Pages of files that nobody uses now are given back when memory is short.
        return max(0, limit - taken + _inactive_files(stat)) if limit < 1 << 60 else None
    return None


def _inactive_files(stat: Path) -> int:
    try:
        lines = dict(line.split(" ", 1) for line in stat.read_text("ascii").splitlines())
        return int(lines.get("total_inactive_file", lines.get("inactive_file", "0")))
    except (OSError, ValueError):
        return 0
