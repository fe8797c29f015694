"""Decides whether a plan still holds where it matters, and in which order its objects are created. Pure.

A plan holds for a state. If the state has changed since, the plan is made again, and compared where it matters:

* Each new object has the same outcome: sign and reason code. Its node is not compared: kube-scheduler breaks ties at
  random, so that a plan's node is one of several equally good ones. `same_nodes` compares nodes, too.
* Nothing is evicted or moved that the plan had not named.

What else changed (other pods that run, other reasons of other pods) does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.plan.files import PlanFile
from extender.plan.planned import what_ifs
from extender.plan.reading.kinds import Role, role_of
from extender.plan.records import Plan, RawObject, Row, Sign
from extender.plan.showing.lines import name_of

#: Kinds that nobody creates by a plan: nodes register themselves.
_NEVER = ("Node",)
#: Kinds that others need when they are created.
FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass")
_GOES = (Sign.EVICTED, Sign.MOVES)


def refusal(file: PlanFile) -> str:
    """Return why the objects of a plan cannot be created; "" if they can."""
    if file.plan.stopped:
        return f"the plan was stopped before its end: {file.plan.stopped}"
    if what := ", ".join(what_ifs(file.changes)):
        return f"the plan was made with {what}; it does not hold without, and `waggle apply` only creates objects"
    if not file.changes.create:
        return "the plan creates nothing: it was made without -f"
    if nodes := [each for each in file.changes.create if each.kind in _NEVER]:
        return f"{nodes[0].target} ({nodes[0].origin}): nodes are made by their kubelets, not by a plan"
    return ""


def differences(before: Plan, after: Plan, created: Sequence[RawObject], *, same_nodes: bool = False) -> list[str]:
    """Return the differences in `after` that matter, as sentences. `created`: the objects that do not exist
    yet."""
    origins = {each.origin for each in created}
    old = {name_of(row): row for row in before.rows}
    new = {name_of(row): row for row in after.rows}
    told: list[str] = []
    for name in [*old, *(name for name in new if name not in old)]:
        was, now = old.get(name), new.get(name)
        if _is_new(was or now, origins):
            told += _other_outcome(name, was, now, same_nodes)
        elif now is not None and now.sign in _GOES and (was is None or was.sign not in _GOES):
            told.append(f"{name} would be {'evicted' if now.sign is Sign.EVICTED else 'moved'} from {now.before}")
    if after.stopped:
        told.append(f"the plan for the cluster as it is now was stopped before its end: {after.stopped}")
    return told


def _is_new(row: Row | None, origins: set[str]) -> bool:
    return row is not None and bool(row.origin) and row.origin in origins


def _other_outcome(name: str, was: Row | None, now: Row | None, same_nodes: bool) -> Iterator[str]:
    if _outcome(was, same_nodes) != _outcome(now, same_nodes):
        yield f"{name} would {_words(now)}; the plan says that it would {_words(was)}"


def _outcome(row: Row | None, same_nodes: bool) -> tuple[str, ...]:
    if row is None:
        return ()
    return (row.sign, row.code, row.node) if same_nodes else (row.sign, row.code)


def _words(row: Row | None) -> str:
    if row is None:
        return "not be made"
    if row.sign in (Sign.RUNS, Sign.MOVES):
        return f"run on {row.node}" if row.node else "run"
    word = "be evicted" if row.sign is Sign.EVICTED else "wait"
    return f"{word} ({row.code})" if row.code else word


def in_order(objects: Sequence[RawObject]) -> list[RawObject]:
    """Return the objects in the order in which they are created: first those without which the API server refuses
    others, then what makes no pods, then the others; each as the plan has them."""
    return sorted(objects, key=_turn)


def _turn(each: RawObject) -> int:
    if each.kind in FIRST:
        return FIRST.index(each.kind)
    role = role_of(each.api_version, each.kind)
    return len(FIRST) + (role in (Role.MAKES_PODS, Role.NOT_PLANNED, Role.UNKNOWN))
