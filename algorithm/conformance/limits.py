"""Limits of the process in which an algorithm is tested: its memory, and the size of the files that it writes.

An algorithm that allocates without end gets MemoryError, which `guard` reports. Then `give_reserve` lets the kit go on
for long enough to say so. On systems without these limits (Windows; partly macOS), there are none.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

try:
    import resource as _resource

    _system: Any = _resource
except ImportError:  # pragma: no cover - Windows
    _system = None

#: The environment variable by which processes are found that an algorithm has started and left behind.
MARK = "WAGGLE_CONFORMANCE_MARK"
#: How often they are looked for: each may have started another one meanwhile.
_MOST_ROUNDS = 10

_MIB = 1 << 20
#: MiB beyond the limit that the kit may use once an algorithm has exceeded it.
_RESERVE = 512
#: Address space is limited to so many times the memory: libraries map more than they use.
_MAPPED = 4
#: Bytes of a file, the output of the process among them.
_LONGEST_FILE = 64 * _MIB


def limit_process(memory: int) -> None:
    """Limit this process, and those that it starts, to `memory` MiB of private memory."""
    if _system is None:
        return
    _set(_system.RLIMIT_DATA, memory * _MIB, (memory + _RESERVE) * _MIB)
    _set(_system.RLIMIT_AS, _MAPPED * memory * _MIB, (_MAPPED * memory + _RESERVE) * _MIB)
    _set(_system.RLIMIT_FSIZE, _LONGEST_FILE, _LONGEST_FILE)
    _set(_system.RLIMIT_CORE, 0, 0)


def give_reserve() -> None:
    """Let this process use its reserve of memory."""
    if _system is None:
        return
    for kind in (_system.RLIMIT_DATA, _system.RLIMIT_AS):
        _, hard = _system.getrlimit(kind)
        with contextlib.suppress(ValueError, OSError):
            _system.setrlimit(kind, (hard, hard))


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process and its threads have used, in seconds; 0.0 if it is gone, or this is not Linux."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")  # user and system


def end_marked(mark: str) -> None:
    """Kill the other processes in whose environment MARK has this value: those that left the process group, too.

    They are found on Linux only.
    """
    for _ in range(_MOST_ROUNDS):
        found = [pid for pid in _processes() if pid != os.getpid() and _is_marked(pid, mark)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _processes() -> list[int]:
    try:
        return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    except OSError:
        return []


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _set(kind: int, soft: int, hard: int) -> None:
    """Lower a limit; one that is lower already stays."""
    _, most = _system.getrlimit(kind)
    if most != _system.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    with contextlib.suppress(ValueError, OSError):
        _system.setrlimit(kind, (soft, hard))
