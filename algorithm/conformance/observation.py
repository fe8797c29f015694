"""Observes an algorithm from outside: its answers, numbers and pages, as one comparable record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from algorithm.conformance.results import shown
from algorithm.interface import Bind, Phase, PodRefused, Preempt, SuggestedNodes, Wait
from algorithm.model import Pod

if TYPE_CHECKING:
    from algorithm.conformance.guard import Guarded
    from algorithm.conformance.life import Life

#: Waiting pods that are asked about, and pods of which the gang and the priority are asked.
_MOST_ASKED = 4
_MOST_LOOKED_AT = 8

Observation = dict[str, Any]


class Refused(msgspec.Struct, frozen=True):
    """The answer to a question about a pod that the algorithm refuses."""

    reason: Any


class Raised(msgspec.Struct, frozen=True):
    """The answer to a question that raised something else."""

    kind: str
    text: str


def asked(algorithm: Guarded, pod: Pod, nodes: tuple[str, ...], phase: Phase) -> Any:
    """The answer of `schedule`; Refused or Raised for an exception."""
    try:
        return algorithm.schedule(pod, SuggestedNodes(nodes), phase)
    except PodRefused as refused:
        return Refused(refused.reason)
    except Exception as error:
        return Raised(type(error).__name__, shown(error))


def answers(
    algorithm: Guarded, waiting: Mapping[str, Pod], nodes: tuple[str, ...], *, halves: bool = True
) -> Observation:
    """The answers about some waiting pods, in each phase with all nodes, and, with `halves`, for each half of them."""
    found: Observation = {}
    offers = [nodes, *((nodes[0::2], nodes[1::2]) if halves and len(nodes) > 1 else ())]
    for uid in sorted(waiting)[:_MOST_ASKED]:
        for number, offered in enumerate(offers):
            if not offered:
                continue
            for phase in Phase if number == 0 else (Phase.FILTERING,):
                label = f"schedule({waiting[uid].key}, [{', '.join(offered)}], {phase.value})"
                found[label] = asked(algorithm, waiting[uid], offered, phase)
    return found


def numbers(algorithm: Guarded) -> Observation:
    """What `metrics`, `inspect` and `reserved_pods` say."""
    views: dict[str, Callable[[], Any]] = {
        "metrics()": lambda: sorted(map(repr, algorithm.texts("metrics"))),
        "inspect()": lambda: plain(algorithm.inspect()),
        "reserved_pods()": lambda: sorted(algorithm.reserved_pods()),
    }
    return {name: _seen(view) for name, view in views.items()}


def standing(algorithm: Guarded, pods: Mapping[str, Pod]) -> Observation:
    """The gang and the priority of pods."""
    found: Observation = {}
    for uid in sorted(pods)[:_MOST_LOOKED_AT]:
        pod = pods[uid]
        found[f"gang({pod.key})"] = _seen(partial(algorithm.gang, pod))
        found[f"priority({pod.key})"] = _seen(partial(algorithm.priority, pod))
    return found


def _seen(view: Callable[[], Any]) -> Any:
    try:
        return view()
    except Exception as error:
        return Raised(type(error).__name__, shown(error))


def plain(value: Any) -> Any:
    """A value as JSON has it; its repr if it is none."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except Exception:
        return repr(value)


def difference(was: Observation, now: Observation) -> str:
    """The first thing that differs, "" if nothing does."""
    for label in was:
        if label in now and was[label] != now[label]:
            where, this, that = _deeper("", was[label], now[label])
            return f"{label}{where}: {told(that)}, and not {told(this)}"
    return ""


def _deeper(where: str, was: Any, now: Any) -> tuple[str, Any, Any]:
    """The innermost part of two values of JSON that differs."""
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        key = next(key for key in was if was[key] != now[key])
        return _deeper(f"{where}[{key!r}]", was[key], now[key])
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        at = next(at for at in range(len(was)) if was[at] != now[at])
        return _deeper(f"{where}[{at}]", was[at], now[at])
    return where, was, now


def told(answer: Any) -> str:
    """An answer in a few words."""
    match answer:
        case Bind(node=node, annotations=annotations):
            return f"Bind({node!r}{', ' + repr(annotations) if annotations else ''})"
        case Preempt(victims=victims, node=node, gang_members=members):
            named = ", ".join(f"{victim.uid} on {victim.node}" for victim in victims)
            also = f", gang_members={members!r}" if members else ""
            return f"Preempt(node={node!r}, victims=[{named}]{also}): {answer.reason.text!r}"
        case Wait(reason=why, nodes=nodes):
            of_nodes = ", ".join(f"{name}: {each.text!r}" for name, each in list(nodes.items())[:4])
            return f"Wait({why.text!r}{', {' + of_nodes + '}' if nodes else ''})"
        case Refused(reason=why):
            return f"PodRefused({getattr(why, 'text', why)!r})"
        case Raised(text=text):
            return text
        case _:
            return shown(answer)


def kinds(seen: Observation) -> Observation:
    """The same answers to offers of all nodes, without what depends on the history: to whichever node a Bind is."""
    return {
        label: type(answer).__name__ if isinstance(answer, Bind | Preempt | Wait) else answer
        for label, answer in seen.items()
        if label.startswith("schedule(")
    }


def observe(life: Life, algorithm: Guarded | None = None) -> Observation:
    """Everything that can be seen of an algorithm, by default of the one that lives."""
    of = life.algorithm if algorithm is None else algorithm
    return answers(of, life.waiting, tuple(sorted(life.nodes))) | numbers(of) | standing(of, life.allocated)


def look_around(life: Life, algorithm: Guarded | None = None) -> None:
    """Ask everything that people may ask. What is raised does not matter here."""
    of = life.algorithm if algorithm is None else algorithm
    numbers(of)
    pods = list(life.waiting.values())[:2]
    for pod in pods:
        _seen(partial(of.texts, "explain", pod))
        _seen(partial(of.prioritize, pod, SuggestedNodes(sorted(life.nodes))))
    standing(of, life.waiting)
    for pod in [*pods, *list(life.allocated.values())[:2]]:
        _seen(partial(current_priority, of, pod))
    for path in (*life.pages, "no-such-page"):
        _seen(partial(read_page, of, path))
    _seen(lambda: of.texts("changes_to", of.twin().raw))
    _seen(of.forked)


def current_priority(algorithm: Guarded, pod: Pod) -> Any:
    """The priority that the web page shows."""
    return algorithm.current_priority(pod, algorithm.describe(pod))


def read_page(algorithm: Guarded, path: str) -> Any:
    """The page, read to its end: a value, or the bytes of its pieces."""
    made = algorithm.page(path)
    if isinstance(made, Iterator):
        return b"".join(algorithm.guard.pieces("page", lambda: made))
    return made
