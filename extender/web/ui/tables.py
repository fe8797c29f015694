"""Tables of pods and of groups: filtered, sorted and paged by the server, so that a browser never holds all of them.

The rows are read at most every other second and for at most a twentieth of the time (seldom.py), however many people
look and whatever they look for. An answer has at most LONGEST_PAGE rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from extender.scheduling.state.pod_info import State
from extender.server.rows import PLACED, PodRow
from extender.web.ui.seldom import Seldom

#: Rows of a page at most.
LONGEST_PAGE = 200
#: Namespaces and tenants to choose from: those with most pods.
MOST_CHOICES = 200
#: Seconds between two readings.
INTERVAL = 2.0


class GroupRow(NamedTuple):
    """The pods that run together, or one pod that is `alone`.

    `binding` pods have a place and are not bound yet. `devices` and `nodes` are those of running and binding pods.
    `code` is the reason for which most of its waiting pods wait; `example` is one of those, otherwise any pod.
    """

    namespace: str
    name: str
    tenant: str
    alone: bool
    pods: int
    running: int
    binding: int
    waiting: int
    preempting: int
    devices: int
    nodes: int
    priority: int
    code: str
    example: str
    created: str


class Wanted(BaseModel):
    """Which rows. An unknown parameter is refused: a misspelt filter must not look as if it had matched all."""

    model_config = ConfigDict(extra="forbid")

    find: str = Field("", max_length=200, description="A part of namespace/name, of the group's or the node's name")
    namespace: str = Field("", max_length=253, description="Only this namespace")
    tenant: str = Field("", max_length=253, description="Only this tenant (HiveD: virtual cluster)")
    descending: bool = Field(False, description="The other way round")
    offset: int = Field(0, ge=0, le=10_000_000, description="Rows to leave out")
    limit: int = Field(50, ge=1, le=LONGEST_PAGE, description="Rows to show")


class PodsWanted(Wanted):
    state: Literal["", "Waiting", "Preempting", "Binding", "Bound"] = Field("", description="Only pods in this state")
    order: Literal["name", "namespace", "group", "tenant", "state", "node", "priority", "devices", "age"] = "name"


class GroupsWanted(Wanted):
    state: Literal["", "running", "waiting"] = Field(
        "", description="Only groups with pods that run, or with pods that wait"
    )
    order: Literal["name", "namespace", "tenant", "pods", "running", "devices", "nodes", "priority", "age"] = "name"


_Row = TypeVar("_Row", PodRow, GroupRow)
#: What a column is sorted by, where that is not the field of its name. The youngest have the latest `created`.
_FIELDS = {"age": "created"}
_RISES = frozenset({"age"})


class _Kept(Generic[_Row]):
    """Rows by namespace and name. The text in which each is looked for is made when somebody looks for something."""

    def __init__(self, rows: Iterable[_Row], text: Callable[[_Row], str]) -> None:
        self.rows: list[_Row] = sorted(rows, key=attrgetter("namespace", "name"))
        self._text: Callable[[_Row], str] = text

    @cached_property
    def _texts(self) -> list[str]:
        return [self._text(row).lower() for row in self.rows]

    def with_part(self, part: str) -> list[_Row]:
        """The rows whose text has this part; all if it is empty."""
        if not part:
            return self.rows
        return [row for row, text in zip(self.rows, self._texts, strict=True) if part in text]


class _Reading:
    """All rows of one moment, and what there is to choose from. What nobody asks for is not made."""

    def __init__(self, rows: Sequence[PodRow]) -> None:
        self._rows = rows

    @cached_property
    def pods(self) -> _Kept[PodRow]:
        return _Kept(self._rows, lambda row: f"{row.namespace}/{row.name}\n{row.group}\n{row.node}")

    @cached_property
    def groups(self) -> _Kept[GroupRow]:
        return _Kept(_groups(self._rows), lambda row: f"{row.namespace}/{row.name}\n{row.name}")

    @cached_property
    def namespaces(self) -> list[str]:
        return _choices(row.namespace for row in self._rows)

    @cached_property
    def tenants(self) -> list[str]:
        return _choices(row.tenant for row in self._rows if row.tenant)


class Tables:
    """Thread-safe. `read` returns all pods; `wall` is the time in seconds since 1970, for ages."""

    def __init__(
        self,
        read: Callable[[], Sequence[PodRow]],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._reading = Seldom(lambda: _Reading(read()), interval=INTERVAL, clock=clock)
        self._wall = wall

    def pods(self, wanted: PodsWanted) -> dict[str, Any]:
        """Return a page of pods, JSON-ready."""
        reading = self._reading.value()
        return self._page(reading, reading.pods, wanted, lambda row: wanted.state in ("", row.state))

    def groups(self, wanted: GroupsWanted) -> dict[str, Any]:
        """Return a page of groups, JSON-ready."""

        def fits(row: GroupRow) -> bool:
            pending = row.waiting + row.preempting
            return not wanted.state or (row.running if wanted.state == "running" else pending) > 0

        reading = self._reading.value()
        return self._page(reading, reading.groups, wanted, fits)

    def _page(
        self, reading: _Reading, kept: _Kept[_Row], wanted: PodsWanted | GroupsWanted, fits: Callable[[_Row], bool]
    ) -> dict[str, Any]:
        found = [
            row
            for row in kept.with_part(wanted.find.strip().lower())
            if wanted.namespace in ("", row.namespace) and wanted.tenant in ("", row.tenant) and fits(row)
        ]
        # Rows are sorted by name already, and sorting keeps the order of equals.
        number = found[0]._fields.index(_FIELDS.get(wanted.order, wanted.order)) if found else 0
        found.sort(key=itemgetter(number), reverse=wanted.descending is not (wanted.order in _RISES))
        page = found[wanted.offset : wanted.offset + wanted.limit]
        return {
            "total": len(kept.rows),
            "matching": len(found),
            "offset": wanted.offset,
            "items": [self._shown(row) for row in page],
            "namespaces": reading.namespaces,
            "tenants": reading.tenants,
        }

    def _shown(self, row: PodRow | GroupRow) -> dict[str, Any]:
        shown = row._asdict()
        shown["age"] = _age(shown.pop("created"), self._wall())
        return shown


def _groups(rows: Iterable[PodRow]) -> list[GroupRow]:
    members: dict[tuple[str, str], list[PodRow]] = {}
    alone = []
    for row in rows:
        if row.group:
            members.setdefault((row.namespace, row.group), []).append(row)
        else:
            alone.append(_alone(row))
    return [*alone, *(_group(namespace, name, pods) for (namespace, name), pods in members.items())]


def _alone(pod: PodRow) -> GroupRow:
    has_place = pod.state in PLACED
    return GroupRow(
        namespace=pod.namespace,
        name=pod.name,
        tenant=pod.tenant,
        alone=True,
        pods=1,
        running=int(pod.state == State.BOUND),
        binding=int(pod.state == State.BINDING),
        waiting=int(pod.state == State.WAITING),
        preempting=int(pod.state == State.PREEMPTING),
        devices=pod.devices if has_place else 0,
        nodes=int(has_place),
        priority=pod.priority,
        code=pod.code,
        example=pod.name,
        created=pod.created,
    )


def _group(namespace: str, name: str, pods: Sequence[PodRow]) -> GroupRow:
    placed = [pod for pod in pods if pod.state in PLACED]
    pending = [pod for pod in pods if pod.state not in PLACED]
    states = Counter(pod.state for pod in pods)
    codes = Counter(pod.code for pod in pending if pod.code)
    code = max(sorted(codes), key=codes.__getitem__, default="")
    return GroupRow(
        namespace=namespace,
        name=name,
        tenant=pods[0].tenant,
        alone=False,
        pods=len(pods),
        running=states[State.BOUND],
        binding=states[State.BINDING],
        waiting=states[State.WAITING],
        preempting=states[State.PREEMPTING],
        devices=sum(pod.devices for pod in placed),
        nodes=len({pod.node for pod in placed}),
        priority=max(pod.priority for pod in pods),
        code=code,
        example=next((pod.name for pod in pending if pod.code == code), pods[0].name),
        created=min(pod.created for pod in pods),
    )


def _choices(names: Iterable[str]) -> list[str]:
    return sorted(name for name, _ in Counter(names).most_common(MOST_CHOICES))


def _age(created: str, now: float) -> int | None:
    """Return the seconds since then; None if the text is no time."""
    try:
        then = datetime.fromisoformat(created)
    except ValueError:
        return None
    return max(0, int(now - (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()))
