"""Plain sentences about a pod that waits; the first one is what a person should read first, also in lists.

They combine three sources: the reason of Waggle's last answer, the algorithm's answer as of now (`whatif.py`), and
kube-scheduler's text on the pod, because its own plug-ins may refuse nodes that have room.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from extender.server.views import PodView
from extender.server.whatif import Verdict

#: "0/32 nodes are available: 30 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu. preemption: ..."
_DIAGNOSIS = re.compile(r"^\d+/(?P<nodes>\d+) nodes are available: (?P<found>.*?)(?:\. |\.$|$)", re.DOTALL)
#: A clause begins where a number begins: from each digit of a long one, the rest would be read again.
_CLAUSE = re.compile(r"(?<!\d)(\d+) (.+?)(?=, \d+ |$)", re.DOTALL)
#: Shortages that the algorithm counts, too.
_COUNTED = ("Insufficient ", "Too many pods")
#: Clauses of kube-scheduler's that are shown.
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Refusals:
    """What kube-scheduler's own plug-ins found beside too little room, each with its number of nodes; `every`: one of
    them refuses every node."""

    texts: tuple[str, ...] = ()
    every: bool = False

    def __str__(self) -> str:
        more = len(self.texts) - _SHOWN
        return ", ".join(self.texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def own_refusals(message: str, ours: Collection[str]) -> Refusals:
    """Read them from the message that kube-scheduler wrote: taints, affinity, volumes. `ours` are texts of Waggle's."""
    found = _DIAGNOSIS.match(message)
    if found is None:
        return Refusals()
    clauses = [(number, text) for number, text in _CLAUSE.findall(found["found"]) if _is_own(text.strip(), ours)]
    return Refusals(tuple(f"{number} {text}" for number, text in clauses), found["nodes"] in dict(clauses))


def _is_own(text: str, ours: Collection[str]) -> bool:
    return not text.startswith(_COUNTED) and text not in ours


def sentences(pod: PodView, verdict: Verdict | None, nodes: int) -> list[str]:
    """Return what to say about a pod that waits; the first sentence is for lists. Empty: nothing but its reason.

    `nodes` is how many nodes there are. None: no verdict is known.
    """
    why, message = pod.reason, pod.kube_scheduler
    assert why is not None
    if pod.offered is None and message and _DIAGNOSIS.match(message) is None:
        return [f"kube-scheduler: {message}"]
    if verdict is None or verdict.fault:
        return []
    refused = own_refusals(message, {why.text} if verdict.reason is None else {why.text, verdict.reason.text})
    if verdict.node:
        return [_fits(pod, verdict.node, refused, nodes)]
    said = list(verdict.sentences) or ([verdict.reason.text] if verdict.reason is not None else [])
    if refused.every and said:
        return [f"kube-scheduler itself refuses every node: {refused}.", f"If it did not: {said[0]}"]
    if refused.texts and said:
        return [*said, f"kube-scheduler refuses nodes that count as usable here: {refused}."]
    return said


def _fits(pod: PodView, node: str, refused: Refusals, nodes: int) -> str:
    room = f"There is room on {node}"
    if refused.every:
        return f"kube-scheduler itself refuses every node: {refused}. There is room on {node}."
    if refused.texts:
        return f"{room}, but kube-scheduler refuses nodes for this pod: {refused}."
    if pod.offered is None:
        return f"{room}; the pod is placed when kube-scheduler asks and offers that node."
    if node not in pod.offered:
        return f"{room}, but kube-scheduler offered {len(pod.offered)} of {nodes} nodes, and not that one."
    return f"{room} now; the pod is placed when kube-scheduler asks again."
