"""Judges of what an algorithm shows to people and Prometheus: forms, bounds, and that it does not change by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from algorithm.conformance.guard import MOST_PIECES
from algorithm.conformance.judge import PeriodicJudge, promise
from algorithm.conformance.observation import current_priority, read_page
from algorithm.conformance.results import shown
from algorithm.gauges import sound
from algorithm.interface import GangInfo, InvalidArgument, PageNotFound, PodDescription, SuggestedNodes, Unoffered
from algorithm.model import Pod

#: Characters of a page, of `inspect` and of a sentence.
_MOST_TEXT = 50_000_000
_LONGEST_SENTENCE = 10_000
#: Paths that somebody may type.
ODD_PATHS = ("", "/", "no-such-page", "pods/../../etc", "a/" * 50, "%00", "\u00e9", "x" * 5000)


class _OfViews(PeriodicJudge):
    every = 3

    def pods(self) -> list[Pod]:
        """Some pods of all kinds, those that are gone among them."""
        gone = [pod for uid, pod in self.life.seen.items() if uid not in self.life.waiting | self.life.allocated]
        return [*list(self.life.waiting.values())[:3], *list(self.life.allocated.values())[:3], *gone[-2:]]

    def seen(self, what: str, view: Callable[[], Any]) -> Any:
        """The answer. It must not raise."""
        try:
            return view()
        except Exception as error:
            promise(False, f"{what} raised {shown(error)}")


class MetricsSound(_OfViews):
    name = "metrics-sound"

    def look(self) -> None:
        found = self.seen("metrics()", self.life.algorithm.metrics)
        _, flaws = self.seen("metrics()", lambda: sound(found))
        promise(not flaws, f"metrics() returns {'; '.join(flaws)}")


class InspectSound(_OfViews):
    name = "inspect-sound"

    def look(self) -> None:
        found = self.seen("inspect()", self.life.algorithm.inspect)
        promise(isinstance(found, Mapping), f"inspect() is a {type(found).__name__}, not a mapping")
        text = _json("inspect()", found)
        again = _json("inspect()", self.seen("inspect()", self.life.algorithm.inspect))
        promise(text == again, f"inspect() changes although nothing does: {_around(text, again)}")


class ExplainSound(_OfViews):
    name = "explain-sound"

    def look(self) -> None:
        for pod in list(self.life.waiting.values())[:3]:
            what = f"explain({pod.key})"
            said = self.seen(what, partial(self.life.algorithm.texts, "explain", pod))
            promise(len(said) <= MOST_PIECES, f"{what} yields more than {MOST_PIECES} sentences")
            for sentence in said:
                promise(isinstance(sentence, str), f"{what} yields {shown(sentence)}, not a text")
                promise(len(sentence) <= _LONGEST_SENTENCE, f"{what} yields a sentence of {len(sentence)} characters")
            again = self.seen(what, partial(self.life.algorithm.texts, "explain", pod))
            promise(said == again, f"{what} changes although nothing does: {shown(again)}, after {shown(said)}")


class PageSound(_OfViews):
    name = "page-sound"
    every = 5

    def look(self) -> None:
        for path in (*self.life.pages, *ODD_PATHS):
            what = f"page({path[:50]!r})"
            try:
                found = read_page(self.life.algorithm, path)
            except (PageNotFound, InvalidArgument) as error:
                there = path in self.life.pages and isinstance(error, PageNotFound)
                promise(not there, f"{what} raised {shown(error)}, although the world says that there is such a page")
                continue
            except Exception as error:
                promise(False, f"{what} raised {shown(error)}")
            _json(what, found)


class ChangesToSound(_OfViews):
    name = "changes-to-sound"
    every = 5

    def look(self) -> None:
        same = self._said("another one with the same settings, told the same", self.life.algorithm.twin().raw)
        promise(not same, f"changes_to says, of an equal algorithm: {same[0] if same else ''!r}")
        self._said("another one after a restart", self.life.restarted().raw)

    def _said(self, of: str, other: Any) -> Sequence[str]:
        said = self.seen(f"changes_to({of})", lambda: self.life.algorithm.texts("changes_to", other))
        for sentence in said:
            promise(isinstance(sentence, str), f"changes_to({of}) has {shown(sentence)}, not a text")
        promise(len(said) <= MOST_PIECES, f"changes_to({of}) has more than {MOST_PIECES} sentences")
        return list(said)


class DescribeSound(_OfViews):
    name = "describe-sound"

    def look(self) -> None:
        for pod in self.pods():
            what = f"describe({pod.key})"
            found = self.seen(what, partial(self.life.algorithm.describe, pod))
            promise(isinstance(found, PodDescription), f"{what} is {shown(found)}, not a PodDescription")
            texts = isinstance(found.group, str) and isinstance(found.tenant, str)
            promise(texts, f"{what} has a group or a tenant that is no text: {shown(found)}")
            numbers = all(value is None or _whole(value) for value in (found.priority, found.devices))
            promise(numbers, f"{what} has a priority or devices that are no whole numbers: {shown(found)}")
            again = self.seen(what, partial(self.life.algorithm.describe, pod))
            promise(again == found, f"{what} changes for one record: {shown(again)}, after {shown(found)}")


class GangSound(_OfViews):
    name = "gang-sound"

    def look(self) -> None:
        for pod in self.pods():
            what = f"gang({pod.key})"
            found = self.seen(what, partial(self.life.algorithm.gang, pod))
            promise(found is None or isinstance(found, GangInfo), f"{what} is {shown(found)}, not a GangInfo or None")
            good = found is None or (isinstance(found.name, str) and isinstance(found.all_or_nothing, bool))
            promise(good, f"{what} has fields of wrong types: {shown(found)}")


class UnofferedSound(_OfViews):
    name = "unoffered-sound"

    def look(self) -> None:
        for pod in self.pods():
            what = f"unoffered({pod.key})"
            found = self.seen(what, partial(self.life.algorithm.unoffered, pod))
            promise(isinstance(found, Unoffered), f"{what} is {shown(found)}, not an Unoffered")
            again = self.seen(what, partial(self.life.algorithm.unoffered, pod))
            promise(again is found, f"{what} changes although nothing does: {shown(again)}, after {shown(found)}")


class PrioritySound(_OfViews):
    name = "priority-sound"

    def look(self) -> None:
        for pod in self.pods():
            found = self.seen(f"priority({pod.key})", partial(self.life.algorithm.priority, pod))
            promise(_whole(found), f"priority({pod.key}) is {shown(found)}, not a whole number")
            again = self.life.algorithm.priority(pod)
            promise(found == again, f"priority({pod.key}) changes although nothing does: {again}, after {found}")
            found = self.seen(f"current_priority({pod.key})", partial(current_priority, self.life.algorithm, pod))
            promise(_whole(found), f"current_priority({pod.key}) is {shown(found)}, not a whole number")


class PrioritizeSound(_OfViews):
    name = "prioritize-sound"

    def look(self) -> None:
        nodes = tuple(sorted(self.life.nodes))
        offers = [offer for offer in (nodes, nodes[:1], (*nodes[1:], "never-seen")) if offer]
        for pod in list(self.life.waiting.values())[:3]:
            for offered in offers:
                what = f"prioritize({pod.key}, [{', '.join(offered)}])"
                scores = self.seen(what, partial(self._scores, pod, offered))
                promise(isinstance(scores, Mapping), f"{what} is a {type(scores).__name__}, not a mapping")
                strange = sorted(map(str, scores.keys() - set(offered)))
                promise(not strange, f"{what} has a score of {', '.join(strange)}, which was not offered")
                for node, score in scores.items():
                    promise(
                        _whole(score) and 0 <= score <= 10, f"{what} has score {shown(score)} for {node}, not 0 to 10"
                    )
                again = self._scores(pod, tuple(reversed(offered)))
                promise(dict(scores) == dict(again), f"{what} is another time {shown(again)}, after {shown(scores)}")

    def _scores(self, pod: Pod, nodes: tuple[str, ...]) -> Any:
        return self.life.algorithm.prioritize(pod, SuggestedNodes(nodes))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _json(what: str, value: Any) -> bytes:
    """The value as JSON. Raises ContractBroken if it is none, or not finite, or too long."""
    try:
        text = value if isinstance(value, bytes) else msgspec.json.encode(value)
        decoded = msgspec.json.decode(text)
    except Exception as error:
        promise(False, f"{what} is not JSON: {error}")
        raise
    promise(len(text) <= _MOST_TEXT, f"{what} has {len(text)} bytes")
    infinite = _infinite(value if not isinstance(value, bytes) else decoded)
    promise(not infinite, f"{what} has a number that is not finite")
    return bytes(text)


def _infinite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_infinite, value.values()))
    return isinstance(value, list | tuple) and any(map(_infinite, value))


def _around(one: bytes, other: bytes) -> str:
    """The first difference of two texts, with what is before it."""
    first = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, first - 60)
    return f"...{other[begin : first + 60]!r}, after ...{one[begin : first + 60]!r}"
