"""The one sentence about a pod that waits: nothing that kube-scheduler or the algorithm knows better is left out."""

from __future__ import annotations

import pytest

from algorithm.interface import SuggestedNodes
from algorithm.reasons import Code, Reason, reason
from extender.server.summary import own_refusals, sentences
from extender.server.views import PodView
from extender.server.whatif import Verdict

NEVER = "It can never run: it needs 40 nodes."
WROTE = "kube-scheduler has not asked about it, and wrote: "
FULL = reason(Code.NO_NODE_FITS)
INSUFFICIENT = "0/3 nodes are available: 3 Insufficient cpu, 2 Too many pods. preemption: 0/3 nodes are available."
SELECTOR = "0/32 nodes are available: 2 Insufficient cpu, 30 node(s) didn't match Pod's node affinity/selector."
TAINT = "0/2 nodes are available: 1 node(s) had untolerated taint {a.b/c: d, e}, 1 node(s) were unschedulable. no new."


def view(message: str = "", *, offered: list[str] | None = None, why: Reason | None = None) -> PodView:
    if why is None:
        why = reason(Code.REFUSED_BEFORE, detail=message) if message else reason(Code.NOT_ASKED)
    given = None if offered is None else SuggestedNodes(offered)
    return PodView("ns", "p", "u", "Waiting", reason=why, kube_scheduler=message, offered=given)


@pytest.mark.parametrize(
    ("pod", "verdict", "sentence"),
    [
        (view(INSUFFICIENT), Verdict(reason=FULL, sentences=(NEVER, "more")), NEVER),
        (view(INSUFFICIENT), Verdict(reason=FULL), FULL.text),
        (view(INSUFFICIENT), None, f"kube-scheduler has not asked about it, and wrote: {INSUFFICIENT}"),
        (
            view(INSUFFICIENT),
            Verdict(fault="TypeError"),
            f"kube-scheduler has not asked about it, and wrote: {INSUFFICIENT}",
        ),
        (view('Post "https://waggle": EOF'), Verdict(node="a"), 'kube-scheduler: Post "https://waggle": EOF'),
        (
            view(SELECTOR),
            Verdict(node="a"),
            "There is room on a, but kube-scheduler refuses nodes for this pod: 30 node(s) didn't match Pod's node "
            "affinity/selector.",
        ),
        (
            view(SELECTOR),
            Verdict(reason=FULL, sentences=(NEVER,)),
            NEVER,
        ),
        (
            view(INSUFFICIENT),
            Verdict(node="a"),
            "There is room on a; the pod is placed when kube-scheduler asks and offers that node.",
        ),
        (view(), None, reason(Code.NOT_ASKED).text),
        (
            view(why=FULL, offered=["b", "c"]),
            Verdict(node="a"),
            "There is room on a, but kube-scheduler offered 2 of 3 nodes, and not that one.",
        ),
        (
            view(why=FULL, offered=["a"]),
            Verdict(node="a"),
            "There is room on a now; the pod is placed when kube-scheduler asks again.",
        ),
        (view(why=FULL, offered=["a"]), Verdict(reason=FULL, sentences=(NEVER,)), NEVER),
        (view(f"0/3 nodes are available: 3 {FULL.text}.", why=FULL, offered=["a"]), Verdict(reason=FULL), FULL.text),
    ],
)
def test_the_sentence(pod: PodView, verdict: Verdict | None, sentence: str):
    said = sentences(pod, verdict, 3)
    assert (said[0] if said else pod.reason.text) == sentence


def test_advice_for_nodes_that_kube_scheduler_refuses_is_marked_as_such():
    said = sentences(view(SELECTOR), Verdict(reason=FULL, sentences=(NEVER, "End a.")), 32)
    more = "30 node(s) didn't match Pod's node affinity/selector."
    assert said == [NEVER, "End a.", f"kube-scheduler refuses nodes that count as usable here: {more}"]


def test_nobody_is_told_whose_end_would_help_if_kube_scheduler_refuses_every_node():
    nowhere = SELECTOR.replace("30 node", "32 node")
    said = sentences(view(nowhere), Verdict(reason=FULL, sentences=("It is full.", "End a.")), 32)
    refused = "32 node(s) didn't match Pod's node affinity/selector."
    assert said == [f"kube-scheduler itself refuses every node: {refused}", "If it did not: It is full."]
    assert sentences(view(nowhere), Verdict(node="a"), 32) == [
        f"kube-scheduler itself refuses every node: {refused} There is room on a."
    ]


def test_what_kube_schedulers_plug_ins_found_is_read_from_its_message():
    assert own_refusals(SELECTOR, ()).texts == ("30 node(s) didn't match Pod's node affinity/selector",)
    assert own_refusals(TAINT, ()).texts == (
        "1 node(s) had untolerated taint {a.b/c: d, e}",
        "1 node(s) were unschedulable",
    )
    ours = "gang ns/g does not fit as a whole: insufficient cpu, a.b/gpu"
    assert own_refusals(f"0/4 nodes are available: 1 node is not ready, 3 {ours}.", (ours,)).texts == (
        "1 node is not ready",
    )
    for message in ("", "0/0", "no nodes available to schedule pods", "0/3 nodes are available: ", "a" * 5000):
        assert own_refusals(message, ()).texts == ()
