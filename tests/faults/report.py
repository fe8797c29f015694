"""The figures of a fault run as a table: what was injected and survived, by operation and fault."""

from __future__ import annotations

from collections.abc import Mapping

from tests.faults.table import FAULTS, OPERATIONS, Operation, senseless, why_not

#: Operations side by side, so that a line has room on a screen.
_GROUPS = tuple(OPERATIONS[begin : begin + 8] for begin in range(0, len(OPERATIONS), 8))
_WIDTH = 11


def grid(survived: Mapping[tuple[str, str], int]) -> str:
    """How often each fault struck each operation: a dot where that makes no sense, 0 where it was not tried."""
    return "\n\n".join(_block(group, survived) for group in _GROUPS)


def _block(group: tuple[Operation, ...], survived: Mapping[tuple[str, str], int]) -> str:
    first = max(len(fault.name) for fault in FAULTS)
    lines = _heads(group, first)
    for fault in FAULTS:
        cells = ["." if why_not(op, fault) else str(survived.get((op.name, fault.name), 0)) for op in group]
        if set(cells) != {"."}:
            lines.append(f"  {fault.name:<{first}}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells))
    totals = [sum(n for (name, _), n in survived.items() if name == op.name) for op in group]
    return "\n".join([*lines, f"  {'all':<{first}}" + "".join(f"{n:>{_WIDTH}}" for n in totals)])


def _heads(group: tuple[Operation, ...], first: int) -> list[str]:
    """The operations' names, a word a line."""
    words = [op.name.replace(" of ", " ").split() for op in group]
    return [
        f"  {'':<{first}}" + "".join(f"{(each[row] if row < len(each) else ''):>{_WIDTH}}" for each in words)
        for row in range(max(map(len, words)))
    ]


def summary(survived: Mapping[tuple[str, str], int]) -> str:
    """One line: how much of the table was tried."""
    return f"{sum(survived.values())} faults injected and survived, in {sum(map(bool, survived.values()))} pairs"


def left_out() -> str:
    """The pairs that make no sense, with the reasons."""
    by_reason: dict[str, list[str]] = {}
    for pair, why in senseless():
        by_reason.setdefault(f"{pair.fault.name}: {why}", []).append(pair.operation.name)
    return "\n".join(f"  {why}\n      ({', '.join(names)})" for why, names in by_reason.items())
