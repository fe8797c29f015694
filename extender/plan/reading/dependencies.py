"""What a pod waits for: the annotations of start-up ordering on all levels, and `dependsOn` of JobSets and Volcano."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from extender.ordering.after import parse_after
from extender.ordering.depends_on import depends_on
from extender.ordering.records import AFTER, Dependency, Target


def declared(levels: Iterable[Mapping[str, str]], namespace: str, own: Iterable[Target] = ()) -> tuple[Dependency, ...]:
    """Return the dependencies in the annotations of a pod, its owner, the objects above and its gang.

    `own`: the pod and all that it belongs to, for which it cannot wait. Raises AfterError.
    """
    mine = tuple(own)
    found: dict[Dependency, None] = {}
    for each in levels:
        if AFTER in each:
            found.update(dict.fromkeys(parse_after(each[AFTER], namespace, mine)))
    return tuple(found)


def of_parts(obj: Mapping[str, Any]) -> dict[str, tuple[Dependency, ...]]:
    """Return what the parts of a JobSet or of a Volcano Job wait for, by part. Raises AfterError."""
    return {part.name.partition("/")[2]: after for part, after in depends_on(obj).items()}
