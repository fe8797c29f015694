"""The difference between two plans: the objects that run only with the change, or only without it.

    3 gangs more would run, 1 fewer.

A gang runs if none of its pods waits or is evicted. What has no row in a plan stays as it is, or does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from algorithm.reasons import Code
from extender.plan.records import Plan, Row, Sign
from extender.plan.showing.lines import group_of, name_of

_LACKS = (Sign.WAITS, Sign.EVICTED)
#: Rows that differ, that a text shows.
_SHOWN = 50
#: What is said of a what-if change that changes nothing.
NO_DIFFERENCE = "The change makes no difference."


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """One object whose row differs. None: no row, so that it stays as it is, or does not exist."""

    name: str
    group: str = ""
    before: Row | None
    after: Row | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of gangs and pods that would run more or fewer, and the rows that differ."""

    gangs_more: tuple[str, ...] = ()
    gangs_fewer: tuple[str, ...] = ()
    pods_more: int = 0
    pods_fewer: int = 0
    #: Pods that the change itself deletes (`--delete`); they are not among the fewer ones.
    pods_deleted: int = 0
    changed: tuple[Changed, ...] = ()


def difference(before: Plan, after: Plan) -> Difference:
    """Return what `after` has otherwise than `before`, in the order of the rows of `after`."""
    old, new = _rows(before), _rows(after)
    names = [*new, *(name for name in old if name not in new)]
    found = [
        Changed(name=name, group=group_of(new.get(name) or old[name]), before=old.get(name), after=new.get(name))
        for name in names
        if _differs(old.get(name), new.get(name))
    ]
    more, fewer = _gangs(old, new)
    pods = [_step(each.before, each.after) for each in found]
    return Difference(
        gangs_more=more,
        gangs_fewer=fewer,
        pods_more=pods.count(1),
        pods_fewer=pods.count(-1),
        pods_deleted=sum(_is_deleted(each.after) for each in found),
        changed=tuple(found),
    )


def _rows(plan: Plan) -> dict[str, Row]:
    return {name_of(row): row for row in plan.rows}


def _differs(before: Row | None, after: Row | None) -> bool:
    """Whether a line about them would say anything. The wave of what waits or is evicted says nothing."""
    if before is None or after is None:
        row = before or after
        return row is not None and row.sign is not Sign.STAYS
    return _state(before, after) != _state(after, before)


def _runs(row: Row | None, other: Row | None) -> bool | None:
    """Return whether an object runs; None if it does not exist. Without a row, what the other plan evicts or moves is
    running, and everything else does not exist."""
    if row is not None:
        return row.sign not in _LACKS
    return True if other is not None and other.sign in (Sign.EVICTED, Sign.MOVES, Sign.STAYS) else None


def _step(before: Row | None, after: Row | None) -> int:
    """Return 1 if the object runs only after the change, -1 if only before, 0 also if the change removes it."""
    if _is_deleted(after):
        return 0
    old, new = _runs(before, after), _runs(after, before)
    return 0 if new is None else int(new) - int(bool(old))


def _is_deleted(row: Row | None) -> bool:
    return row is not None and row.sign is Sign.EVICTED and row.code == Code.DELETED


def _gangs(old: Mapping[str, Row], new: Mapping[str, Row]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lack_old, lack_new = _lacking(old.values()), _lacking(new.values())
    here = {group_of(row) for row in new.values()} | {group_of(row) for row in old.values() if row.sign is Sign.EVICTED}
    more = sorted(group for group in lack_old - lack_new if group in here)
    fewer = sorted(lack_new - lack_old)
    return tuple(more), tuple(fewer)


def _lacking(rows: Iterable[Row]) -> set[str]:
    return {group_of(row) for row in rows if row.group and row.sign in _LACKS and not _is_deleted(row)}


def headline(found: Difference) -> str:
    """Return the difference in a sentence."""
    if not found.changed:
        return "Both plans are the same."
    parts = [
        *_more_or_fewer("gang", len(found.gangs_more), len(found.gangs_fewer)),
        *_more_or_fewer("pod", found.pods_more, found.pods_fewer),
    ]
    if found.pods_deleted:
        parts.append(f"{found.pods_deleted} pod{'s are' if found.pods_deleted != 1 else ' is'} deleted by the change")
    if not parts:
        number = len(found.changed)
        return f"As much would run; {number} object{'s'[: number != 1]} would have another place, order or reason."
    return "; ".join(parts) + "."


def of_change(found: Difference, *, every: bool = False, all_by: str = "--all") -> str:
    """Return what a what-if change makes of a plan, as text."""
    return f"With the change: {as_text(found, every=every, all_by=all_by)}" if found.changed else NO_DIFFERENCE


def _more_or_fewer(name: str, more: int, fewer: int) -> Iterator[str]:
    if more and fewer:
        yield f"{more} {name}{'s'[: more != 1]} more would run, {fewer} fewer"
    elif more or fewer:
        number, word = (more, "more") if more else (fewer, "fewer")
        yield f"{number} {name}{'s'[: number != 1]} {word} would run"


def as_text(found: Difference, *, every: bool = False, all_by: str = "--all") -> str:
    """Return the difference as text: the sentence, and a line for each row that differs."""
    told = [_line(each) for each in found.changed]
    return listed(headline(found), told, "rows that differ", every=every, all_by=all_by)


def _line(changed: Changed) -> str:
    before, after = changed.before, changed.after
    return f"{changed.name}: {_state(before, after)} => {_state(after, before)}"


def _state(row: Row | None, other: Row | None) -> str:
    if row is None:
        return "stays" if _runs(None, other) else "not there"
    detail = row.code if row.sign in _LACKS else row.node
    wave = f" in wave {row.wave}" if row.wave and row.sign is Sign.RUNS else ""
    return " ".join(filter(None, (str(row.sign), detail))) + wave


def state_text(sentences: Sequence[str], *, every: bool = False) -> str:
    """Return what changed in the state between two plans, as `fingerprint.changes` says it."""
    if not sentences:
        return "The state that they hold for is the same."
    return listed("What changed in between:", sentences, "changes", every=every)


def listed(title: str, sentences: Sequence[str], what: str, *, every: bool = False, all_by: str = "--all") -> str:
    """Return a title with the first sentences below it, and how many more there are."""
    shown = sentences if every else sentences[:_SHOWN]
    told = [title, *(f"  {each}" for each in shown)]
    if len(sentences) > len(shown):
        told.append(f"  and {len(sentences) - len(shown)} more {what} ({all_by} shows all)")
    return "\n".join(told)
