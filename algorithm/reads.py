"""The fields of a pod that are kept in memory, with a bound for each: a pod's author may write anything.

The API server lets a pod carry 256 KiB of annotations, any number of labels and thousands of resources. A record keeps
only what the algorithm reads:

* annotations by name. A *wish* is read on any pod. It is cut one character after LONGEST_WISH, or after the length that
  its reader declares, so that the reader sees by the length that it is too long. A *decision* is written only by our
  binding: its text is kept on pods that have a node. On other pods, an empty text says only that the annotation exists.
  Of an annotation that is only *looked for*, no text is kept.
* labels: the first MOST_LABELS by name, up to LABELS_TOGETHER characters.
* resources: all, unless there are more than MOST_RESOURCES different ones, with more than NAMES_TOGETHER characters,
  more than MOST_AMOUNTS requests and limits over all containers, or more than MOST_CONTAINERS containers. Such a pod
  is `oversized` and is not scheduled. If it runs, only those of its resources count that nodes have. If it waits, none
  is read.

So the memory and the time that one pod costs have a bound that its author cannot raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

import msgspec

#: Characters that are kept of an annotation that is read on any pod.
LONGEST_WISH = 16_384
#: Labels that are kept; they are for the selectors of people.
MOST_LABELS = 64
#: Characters of the names and values of all labels that are kept. Pods have some hundred.
LABELS_TOGETHER = 4096
#: Different resources that one pod may ask for. Real pods ask for less than ten.
MOST_RESOURCES = 32
#: Characters that their names may have together.
NAMES_TOGETHER = 2048
#: Up to this many requests and limits need no check: real pods have fewer, and these cannot be large.
UNCOUNTED = 16
#: Requests and limits that one pod may have, over all its containers: each has to be read as a number.
MOST_AMOUNTS = 1024
#: Containers of a pod, init containers among them.
MOST_CONTAINERS = 1024
#: Names of resources of nodes that are known at the same time.
MOST_KNOWN = 64
#: Characters of names, of keys (a name with a domain) and of a label's value: Kubernetes allows no more.
LONGEST_NAME = 253
LONGEST_KEY = 317
LONGEST_LABEL = 63

#: What every node has.
NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
#: Texts of at least this length are kept once for all pods that have the same text.
_LONG = 512


class Reads(msgspec.Struct, frozen=True):
    """Which fields of pods and nodes are read.

    `wishes`, `decisions` and `looked_for` are names of annotations; `wishes` None: every annotation is read, in full.
    `lengths` are the characters that are read of a wish, where that is less than LONGEST_WISH.
    `claims` are the decisions that keep room for pods other than their own.
    `resources` are those that count of an oversized pod; None: all. `of_nodes` are names of annotations that are read
    on nodes; None: every one.
    """

    wishes: frozenset[str] | None = None
    decisions: frozenset[str] = frozenset()
    looked_for: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    resources: frozenset[str] | None = None
    of_nodes: frozenset[str] | None = None
    lengths: Mapping[str, int] = {}

    def and_of(self, resources: Iterable[str]) -> Reads:
        """A copy that also counts these resources of nodes; beyond MOST_KNOWN names none is added."""
        if self.resources is None:
            return self
        more = sorted(set(resources) - self.resources)[: max(0, MOST_KNOWN - len(self.resources))]
        return msgspec.structs.replace(self, resources=self.resources.union(more)) if more else self

    def annotations(self, given: Mapping[str, str | None], *, decided: bool) -> dict[str, str]:
        """The annotations of a pod that are kept; `decided`: the pod has a node."""
        if self.wishes is None:
            kept = {name: text or "" for name, text in given.items()}
        else:
            kept = {name: self._cut(name, given[name]) for name in self.wishes if name in given}
        for name in self.decisions:
            if name in given:
                kept[name] = _once(given[name] or "") if decided else ""
        for name in self.looked_for:
            if name in given:
                kept.setdefault(name, "")
        return kept

    def _cut(self, name: str, text: str | None) -> str:
        return (text or "")[: self.lengths.get(name, LONGEST_WISH) + 1]

    def annotations_of_node(self, given: dict[str, str | None]) -> dict[str, str | None]:
        """The annotations of a node that are kept."""
        return given if self.of_nodes is None else {name: given[name] for name in self.of_nodes if name in given}


def _once(text: str) -> str:
    """The same text, kept once: the members of a gang carry the same plan."""
    return text if len(text) < _LONG else _known(text)


@lru_cache(maxsize=16)
def _known(text: str) -> str:
    return text


def kept_labels(given: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    """The first of these by name, sorted. Pods with the same labels, as those of one ReplicaSet, share one value."""
    values = given.values()
    if len(given) <= MOST_LABELS and None not in values:
        characters = sum(map(len, given)) + sum(map(len, values))  # type: ignore[arg-type]
        if characters <= LABELS_TOGETHER:
            return _kept_once(tuple(given.items()))
    return _kept(given)


@lru_cache(maxsize=1024)
def _kept_once(items: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return _kept(dict(items))


def _kept(given: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    kept = tuple((name[:LONGEST_KEY], (given[name] or "")[:LONGEST_LABEL]) for name in sorted(given)[:MOST_LABELS])
    if len(kept) * (LONGEST_KEY + LONGEST_LABEL) <= LABELS_TOGETHER:
        return kept
    together = accumulate(len(name) + len(value) for name, value in kept)
    return kept[: sum(length <= LABELS_TOGETHER for length in together)]


@lru_cache(maxsize=16_384)
def once(text: str) -> str:
    """The same text, kept once: for fields of which a cluster has few different values. At most LONGEST_NAME long."""
    return text


def too_many(amounts: Sequence[Mapping[str, object]]) -> str:
    """Which bound these requests and limits exceed, "" if none. Looks at no more than MOST_RESOURCES names of each."""
    entries = sum(map(len, amounts))
    names: set[str] = set()
    for each in amounts:
        if len(each) <= MOST_RESOURCES:
            names.update(each)
        if len(each) > MOST_RESOURCES or len(names) > MOST_RESOURCES:
            return f"its containers name more than {MOST_RESOURCES} different resources"
    if sum(map(len, names)) > NAMES_TOGETHER:
        return f"the names of its resources have more than {NAMES_TOGETHER} characters together"
    return f"its containers have more than {MOST_AMOUNTS} requests and limits" if entries > MOST_AMOUNTS else ""


#: Everything, for callers that hold no more than one pod at a time.
EVERYTHING = Reads()
