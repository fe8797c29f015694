"""How long the reporting process waits for the one in which an algorithm is tested, before it kills it."""

from __future__ import annotations

#: Seconds beyond the time limit of a call after which the process is taken for one that cannot be interrupted. An
#: import has as many, of CPU time: however busy the machine is, a slow import comes to its end.
_PATIENCE = 15.0
#: Wall-clock seconds for an import that waits, for a disk say.
_START = 60.0


def overdue(*, limit: float, calls: int, still: float, cpu: float) -> str:
    """Say what takes too long; "" if nothing does.

    `limit` is that of a call, in seconds. `calls` is how many have begun: none until the plug-in is imported. `still`
    is for how many seconds nothing was heard of the process, and `cpu` how much CPU time it has used, in seconds; 0
    where that is not known. It counts until the first call only.
    """
    patience = limit + _PATIENCE
    if calls:
        return f"no call returned for {patience:g} seconds" if still > patience else ""
    if cpu > patience:
        return f"it took more than {patience:g} seconds of CPU time"
    longest = max(_START, patience)
    return f"nothing was heard of it for {longest:g} seconds" if still > longest else ""
