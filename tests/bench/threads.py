"""What the threads of another process have used, as the kernel (Linux) tells to the nanosecond."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def cpu_by_thread(pid: int) -> dict[int, float]:
    """Return the CPU seconds of each thread by its number; empty where the kernel does not tell. The main thread has
    the number of the process."""
    used = {}
    for each in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            used[int(each.parent.name)] = int(each.read_text().split()[0]) / 1e9
    return used
