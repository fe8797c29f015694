"""Reads the annotation `waggle.dev/after`: a list, as YAML or JSON, of what a pod waits for.

    - job/prepare                                             the Job is ready
    - {group: database}                                       as many pods of the gang as it needs are ready
    - {kind: Job, name: load, state: Complete, grace: 600}    the Job has succeeded; it may come within ten minutes
    - {kind: Deployment, name: cache, optional: true}         if there is one

Targets are in the namespace of the dependant: with a name in another one a pod could find out what runs there.
The author of a pod writes the annotation, so its length, its depth and the number of its entries have bounds.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from algorithm.hived.formats import plainyaml
from extender.core.ordering_names import AFTER
from extender.ordering.records import (
    DEPLOYMENT,
    ENDLESS,
    GROUP,
    JOB,
    JOB_SET,
    KINDS,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    VOLCANO_JOB,
    Dependency,
    State,
    Target,
)

#: Characters of the annotation, and entries.
MOST_CHARACTERS, MOST_DEPENDENCIES = 16_384, 64
#: The longest grace, seconds: a week.
MOST_GRACE = 7 * 86_400
_MOST_PARTS = 1_024
_SHOWN = 60

_ALIASES = {
    **{kind.lower(): kind for kind in KINDS},
    **dict.fromkeys(("podgroup", "podgroups", "pg", "gang", "groups"), GROUP),
    **dict.fromkeys(("pods", "po"), POD),
    **dict.fromkeys(("jobs", "job.batch", "jobs.batch"), JOB),
    **dict.fromkeys(("jobsets", "jobset.jobset.x-k8s.io", "jobsets.jobset.x-k8s.io"), JOB_SET),
    **dict.fromkeys(("deployments", "deploy", "deployment.apps", "deployments.apps"), DEPLOYMENT),
    **dict.fromkeys(("replicasets", "rs", "replicaset.apps", "replicasets.apps"), REPLICA_SET),
    **dict.fromkeys(("statefulsets", "sts", "statefulset.apps", "statefulsets.apps"), STATEFUL_SET),
    **dict.fromkeys(("vcjob", "vj", "job.batch.volcano.sh", "jobs.batch.volcano.sh"), VOLCANO_JOB),
}
_STATES = {state.lower(): state for state in State}
_FIELDS = ("group", "kind", "name", "state", "optional", "grace")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


class AfterError(ValueError):
    """A declaration of dependencies that cannot be used. The text names the field, and what was expected there."""


def parse_after(text: str, namespace: str, own: Iterable[Target] = ()) -> tuple[Dependency, ...]:
    """Return the dependencies that the annotation `waggle.dev/after` declares, in its order.

    `own`: the dependant itself and all that it belongs to; it cannot wait for those. Raises AfterError.
    """
    found = _parse(text, namespace)
    mine = frozenset(own)
    for index, dependency in enumerate(found):
        if dependency.target in mine:
            raise AfterError(f"{AFTER}[{index}]: {dependency.target} would wait for itself")
    return found


def try_after(text: str, namespace: str) -> tuple[tuple[Dependency, ...], str]:
    """Return the dependencies, and the error: of the two one is empty."""
    try:
        return _parse(text, namespace), ""
    except AfterError as error:
        return (), str(error)


def parse_met(text: str) -> frozenset[str]:
    """Return the dependencies that the annotation `waggle.dev/after-met` lists; none if it cannot be read."""
    if len(text) > 4 * MOST_CHARACTERS:
        return frozenset()
    return frozenset(text.split(",")) - {""}


def met_text(met: Iterable[str]) -> str:
    """Return the value of the annotation `waggle.dev/after-met`."""
    return ",".join(sorted(met))


def kind_of(text: str) -> str | None:
    """Return the kind of a target by its kind, plural or short name, as kubectl takes them; None if it is not known."""
    return _ALIASES.get(text.lower())


@lru_cache(maxsize=4_096)
def _parse(text: str, namespace: str) -> tuple[Dependency, ...]:
    items = _load(text)
    if not isinstance(items, list):
        raise AfterError(f'{AFTER}: expected a list, such as [{{group: b}}, "job/a"], got {_shown(items)}')
    if len(items) > MOST_DEPENDENCIES:
        raise AfterError(f"{AFTER}: expected at most {MOST_DEPENDENCIES} entries, got {len(items)}")
    found = tuple(_dependency(item, f"{AFTER}[{index}]", namespace) for index, item in enumerate(items))
    seen: dict[str, int] = {}
    for index, dependency in enumerate(found):
        first = seen.setdefault(dependency.key, index)
        if first != index:
            raise AfterError(f"{AFTER}[{index}]: {dependency.target} stands in entry {first} with the same state")
    return found


def _load(text: str) -> Any:
    """Most declarations are JSON, which is read faster than YAML."""
    if len(text) > MOST_CHARACTERS:
        raise AfterError(f"{AFTER}: expected at most {MOST_CHARACTERS} characters, got {len(text)}")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    try:
        return plainyaml.load(text, longest=MOST_CHARACTERS, most_parts=_MOST_PARTS)
    except (ValueError, RecursionError) as error:
        raise AfterError(f"{AFTER}: expected a list as YAML or JSON: {error}") from error


def _dependency(item: Any, where: str, namespace: str) -> Dependency:
    if isinstance(item, str):
        return Dependency(_named_target(item, where, namespace))
    if not isinstance(item, dict):
        raise AfterError(
            f'{where}: expected {{group: NAME}}, {{kind: KIND, name: NAME}} or "KIND/NAME", got {_shown(item)}'
        )
    for field in item:
        if field not in _FIELDS:
            hint = "; a target is always in the namespace of the dependant" if field == "namespace" else ""
            raise AfterError(f"{where}: unknown field {_shown(field)}, expected {', '.join(_FIELDS)}{hint}")
    target = _target(item, where, namespace)
    return Dependency(
        target,
        _state(item.get("state"), target, where),
        _flag(item.get("optional"), f"{where}.optional"),
        _grace(item.get("grace"), f"{where}.grace"),
    )


def _named_target(text: str, where: str, namespace: str) -> Target:
    kind, slash, name = text.partition("/")
    if not slash:
        raise AfterError(f"{where}: expected KIND/NAME, such as job/prepare, got {_shown(text)}")
    return Target(_kind(kind, where), namespace, _name(name, where))


def _target(item: dict[str, Any], where: str, namespace: str) -> Target:
    group, kind, name = item.get("group"), item.get("kind"), item.get("name")
    if group is not None:
        if kind is not None or name is not None:
            raise AfterError(f"{where}: expected either group or kind and name, not both")
        return Target(GROUP, namespace, _name(group, f"{where}.group"))
    if kind is None or name is None:
        missing = "kind" if kind is None else "name"
        raise AfterError(f"{where}: {missing} is missing; expected {{group: NAME}} or {{kind: KIND, name: NAME}}")
    return Target(_kind(kind, f"{where}.kind"), namespace, _name(name, f"{where}.name"))


def _kind(value: Any, where: str) -> str:
    kind = kind_of(value) if isinstance(value, str) else None
    if kind is None:
        raise AfterError(f"{where}: unknown kind {_shown(value)}, expected {', '.join(KINDS)}")
    return kind


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise AfterError(
            f"{where}: expected the name of an object (lower case letters, digits, '-' and '.'), got {_shown(value)}"
        )
    return str(value)


def _state(value: Any, target: Target, where: str) -> State:
    if value is None:
        return State.READY
    state = _STATES.get(value.lower()) if isinstance(value, str) else None
    if state is None:
        raise AfterError(f"{where}.state: expected {', '.join(State)}, got {_shown(value)}")
    if state is State.COMPLETE and target.kind in ENDLESS:
        raise AfterError(f"{where}.state: a {target.kind} never completes; expected Scheduled or Ready")
    return state


def _flag(value: Any, where: str) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, plainyaml.Plain) and value.lower() in ("true", "false", "yes", "no", "on", "off"):
        return value.lower() in ("true", "yes", "on")
    raise AfterError(f"{where}: expected true or false, got {_shown(value)}")


def _grace(value: Any, where: str) -> float | None:
    if value is None:
        return None
    grace = math.nan
    if not isinstance(value, bool) and (isinstance(value, int | float | plainyaml.Plain)):
        with contextlib.suppress(ValueError, OverflowError):
            grace = float(value)
    if not 0 <= grace <= MOST_GRACE:
        raise AfterError(f"{where}: expected seconds, from 0 to {MOST_GRACE}, got {_shown(value)}")
    return grace


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = ascii(str(value)) if isinstance(value, str) else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
