"""One plain sentence about a pod that waits: what a person should read first, in lists and above an explanation.

It is made of three voices: the reason that Waggle gave when it was asked last, what the algorithm would say now
(`whatif.py`), and what kube-scheduler wrote on the pod, whose own plug-ins may refuse nodes that have room.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from extender.server.views import PodView
from extender.server.whatif import Verdict

#: "0/32 nodes are available: 30 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu. preemption: ..."
_DIAGNOSIS = re.compile(r"^\d+/\d+ nodes are available: (?P<found>.*?)(?:\. |\.$|$)", re.DOTALL)
_CLAUSE = re.compile(r"(\d+) (.+?)(?=, \d+ |$)", re.DOTALL)
#: What the algorithm counts, too.
_COUNTED = ("Insufficient ", "Too many pods")
#: Clauses of kube-scheduler's that are shown.
_SHOWN = 4


def own_refusals(message: str, ours: Collection[str]) -> list[str]:
    """Return what kube-scheduler's own plug-ins found beside too little room, each with its number of nodes: taints,
    affinity, volumes. `ours` are texts of Waggle's own."""
    found = _DIAGNOSIS.match(message)
    clauses = _CLAUSE.findall(found["found"]) if found else []
    return [
        f"{number} {text}" for number, text in clauses if not text.startswith(_COUNTED) and text.strip() not in ours
    ]


def is_diagnosis(message: str) -> bool:
    """Whether the message is a list of what is wrong with nodes, and no error."""
    return _DIAGNOSIS.match(message) is not None


def summarize(pod: PodView, verdict: Verdict | None, nodes: int) -> str:
    """Return the sentence for a pod that waits. `nodes` is how many nodes there are. None: no verdict is known."""
    why, message = pod.reason, pod.kube_scheduler
    assert why is not None
    if pod.offered is None and message and not is_diagnosis(message):
        return f"kube-scheduler: {message}"
    if verdict is None or verdict.fault:
        return why.text
    ours = {why.text} if verdict.reason is None else {why.text, verdict.reason.text}
    refused = own_refusals(message, ours)
    if verdict.node:
        return _fits(pod, verdict.node, refused, nodes)
    first = verdict.sentences[0] if verdict.sentences else (verdict.reason or why).text
    return f"{first} kube-scheduler refuses nodes, too: {_listed(refused)}." if refused else first


def _fits(pod: PodView, node: str, refused: list[str], nodes: int) -> str:
    room = f"There is room on {node}"
    if refused:
        return f"{room}, but kube-scheduler refuses nodes for this pod: {_listed(refused)}."
    if pod.offered is None:
        return f"{room}; the pod is placed when kube-scheduler asks and offers that node."
    if node not in pod.offered:
        return f"{room}, but kube-scheduler offered {len(pod.offered)} of {nodes} nodes, and not that one."
    return f"{room} now; the pod is placed when kube-scheduler asks again."


def _listed(refused: list[str]) -> str:
    more = len(refused) - _SHOWN
    return ", ".join(refused[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
