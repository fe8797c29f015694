"""Judges of single answers: their form, and that they name only what they may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from algorithm.conformance.calls import Ask, Call
from algorithm.conformance.harness import ContractBroken
from algorithm.conformance.judge import Judge, promise
from algorithm.conformance.observation import told
from algorithm.conformance.results import shown
from algorithm.interface import (
    Bind,
    GangInfo,
    MemberPlan,
    Phase,
    PodRefused,
    Preempt,
    SuggestedNodes,
    Unoffered,
    Victim,
    Wait,
)
from algorithm.model import Pod
from algorithm.reasons import Code, Reason

if TYPE_CHECKING:
    from algorithm.conformance.guard import Guarded
    from algorithm.conformance.life import Life


#: Waiting pods about which the judges of answers ask by themselves.
_MOST_ASKED = 3


class OfAnswers(Judge):
    """A judge of the answers to questions: those of the life, and some that it asks by itself while lives are drawn.

    A question of its own that shows a failure becomes a call of the life, so that the program that is shown has it.
    """

    every = 3

    def after(self, call: Call, answer: Any) -> None:
        if isinstance(call, Ask):
            self.judge(call, self.life.waiting[call.uid], answer)
        if self.life.look == "sometimes" and len(self.life.calls) % self.every == 0:
            for ask, pod, found in _asked_now(self.life):
                try:
                    self.judge(ask, pod, found)
                except ContractBroken:
                    self.life.calls.append(ask)
                    raise

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        raise NotImplementedError


#: What was asked last in a life, by the number of its calls: all judges of a life judge the same answers.
_last_asked: WeakKeyDictionary[Life, tuple[int, list[tuple[Ask, Pod, Any]]]] = WeakKeyDictionary()


def _asked_now(life: Life) -> list[tuple[Ask, Pod, Any]]:
    """Ask about some waiting pods, the most important first: with all nodes in each phase, and with each half."""
    number, known = _last_asked.get(life, (0, []))
    if number == len(life.calls):
        return known
    nodes = tuple(sorted(life.nodes))
    halves = [half for half in (nodes[0::2], nodes[1::2]) if half and half != nodes]
    asks = [(nodes, phase) for phase in Phase if nodes]
    asks += [(half, phase) for half in halves for phase in (Phase.PREEMPTING, Phase.EVICTING)]
    pods = sorted(life.waiting.values(), key=lambda pod: (-pod.priority, pod.uid))[:_MOST_ASKED]
    found = [(Ask(pod.uid, *ask), pod, _answer(life, pod, *ask)) for pod in pods for ask in asks]
    _last_asked[life] = len(life.calls), found
    return found


def _answer(life: Life, pod: Pod, offer: tuple[str, ...], phase: Phase) -> Any:
    try:
        return life.algorithm.schedule(pod, SuggestedNodes(offer), phase)
    except Exception as error:
        return error


class WellFormed(OfAnswers):
    name = "answers-well-formed"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if isinstance(answer, Exception):
            return
        try:
            flaw = _flaw(answer)
        except Exception as error:
            flaw = f"cannot be read: {shown(error)}"
        promise(not flaw, f"schedule({pod.key}, {call.phase.value}) returned {_short(answer)}: {flaw}")
        if isinstance(answer, Wait):
            strange = sorted(answer.nodes.keys() - set(call.nodes))
            promise(not strange, f"{pod.key} waits, with a reason for node {', '.join(strange)}, which was not offered")


def _short(answer: Any) -> str:
    try:
        return told(answer)
    except Exception:
        return f"a {type(answer).__name__}"


def _flaw(answer: Any) -> str:
    match answer:
        case Bind():
            return _flaw_of_bind(answer.node, answer.annotations)
        case Preempt():
            return _flaw_of_preempt(answer.node, answer.victims, answer.gang_members) or _flaw_of_reason(answer.reason)
        case Wait():
            return _flaw_of_wait(answer.reason, answer.nodes)
        case _:
            return "expected Bind, Preempt or Wait"


def _flaw_of_bind(node: Any, annotations: Any) -> str:
    if not isinstance(node, str) or not node:
        return f"its node is {node!r}, not the name of a node"
    if not isinstance(annotations, tuple):
        return f"its annotations are a {type(annotations).__name__}, not a tuple of pairs of texts"
    good = all(isinstance(key, str) and isinstance(value, str) for key, value in annotations)
    return "" if good else "its annotations are not pairs of texts"


def _flaw_of_preempt(node: Any, victims: Any, members: Any) -> str:
    if not isinstance(members, tuple) or not all(isinstance(each, MemberPlan) for each in members):
        return "its gang_members are not a tuple of MemberPlan"
    plans = [(node, victims), *((each.node, each.victims) for each in members)]
    return next(filter(None, (_flaw_of_plan(*plan) for plan in plans)), "")


def _flaw_of_wait(why: Any, nodes: Any) -> str:
    if not isinstance(nodes, Mapping):
        return f"its nodes are a {type(nodes).__name__}, not a mapping of names to reasons"
    return next(filter(None, map(_flaw_of_reason, (why, *nodes.values()))), "")


def _flaw_of_plan(node: Any, victims: Any) -> str:
    if not isinstance(node, str):
        return f"a node is {node!r}, not a name"
    if not isinstance(victims, tuple):
        return f"victims are a {type(victims).__name__}, not a tuple"
    return "" if all(isinstance(each, Victim) for each in victims) else "a victim is no Victim"


def _flaw_of_reason(why: Any) -> str:
    if not isinstance(why, Reason):
        return f"a reason is a {type(why).__name__}, not a Reason"
    return "" if why.text else "a reason has no text"


def plans_of(answer: Preempt) -> list[MemberPlan]:
    """The plan of the pod and those of its gang."""
    return [MemberPlan("", answer.node, answer.victims), *answer.gang_members]


def victims_of(answer: Any) -> Iterator[Victim]:
    """All victims that an answer names."""
    if isinstance(answer, Preempt):
        for plan in plans_of(answer):
            yield from plan.victims


def preempting_mates(life: Life, algorithm: Guarded, pod: Pod) -> list[str]:
    """The UIDs of the pods in its gang for which a plan was accepted, perhaps its own among them."""
    gang = algorithm.gang(pod)
    return [] if gang is None else [uid for uid in life.preempting if algorithm.gang(life.waiting[uid]) == gang]


class OnlyOffered(OfAnswers):
    name = "only-offered-nodes"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if isinstance(answer, Bind):
            promise(answer.node in self.life.nodes, f"{pod.key} goes to node {answer.node}, which does not exist")
            allowed = answer.node in call.nodes or self._may(pod, Unoffered.PLACES)
            promise(allowed, f"{pod.key} goes to node {answer.node}, which was not offered")
        elif isinstance(answer, Preempt):
            for plan in plans_of(answer):
                self._judge_plan(call, pod, plan)

    def _judge_plan(self, call: Ask, pod: Pod, plan: MemberPlan) -> None:
        """`pod` was asked about; the plan may be for another pod of its gang."""
        preemptor = self.life.waiting.get(plan.uid, pod)

        accepted = self._accepted(preemptor) if call.phase is Phase.FILTERING else set()

        def allowed(node: str) -> bool:
            elsewhere = node in self.life.nodes and self._may(preemptor, Unoffered.PLANS, Unoffered.PLACES)
            return node in call.nodes or node in accepted or elsewhere

        good = not plan.node or allowed(plan.node)
        promise(good, f"the plan of {preemptor.key} is for node {plan.node}, which was not offered")
        for victim in plan.victims:
            good = allowed(victim.node) or self._is_in_a_gang(victim.uid)
            promise(good, f"{preemptor.key} names victim {victim.uid} on {victim.node}, which was not offered")

    def _accepted(self, pod: Pod) -> set[str]:
        """The nodes of plans that were accepted for the pod or its gang. It may insist on them, whatever is offered."""
        nodes: set[str] = set()
        for uid in self.life.preempting.keys() & {pod.uid, *preempting_mates(self.life, self.life.algorithm, pod)}:
            victims = self.life.preempting[uid]
            nodes |= {self.life.cluster.preempting_nodes.get(uid, ""), *(victim.node for victim in victims)}
        return nodes

    def _may(self, pod: Pod, *needed: Unoffered) -> bool:
        """Whether the algorithm declares that it chooses nodes for the pod that were not offered."""
        return self.life.algorithm.unoffered(pod) in needed

    def _is_in_a_gang(self, uid: str) -> bool:
        """A gang that loses one of its places, a reserved one too, may have to go as a whole."""
        found = self.life.allocated.get(uid)
        return found is not None and self.life.algorithm.gang(found) is not None


class LowerPriority(OfAnswers):
    name = "victims-run-with-lower-priority"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if not isinstance(answer, Preempt):
            return
        for plan in plans_of(answer):
            preemptor = self.life.waiting.get(plan.uid, pod)
            for victim in plan.victims:
                self._judge_victim(preemptor, victim)
        own_victims = [victim.uid for victim in answer.victims]
        promise(len(set(own_victims)) == len(own_victims), f"{pod.key} names a victim twice: {', '.join(own_victims)}")

    def _judge_victim(self, preemptor: Pod, victim: Victim) -> None:
        """`preemptor`: the pod whose plan it is. It may be another one of the gang, with its own priority."""
        found = self.life.allocated.get(victim.uid)
        promise(found is not None, f"{preemptor.key} names victim {victim.uid}, which is not allocated")
        assert found is not None
        there = found.node_name == victim.node
        promise(there, f"victim {found.key} runs on {found.node_name}, not on {victim.node}")
        own, theirs = self.life.algorithm.priority(preemptor), self.life.algorithm.priority(found)
        promise(theirs < own, f"victim {found.key} has priority {theirs}, {preemptor.key} has {own}")


class PreemptionPolicyObeyed(OfAnswers):
    name = "preemption-policy-obeyed"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if not isinstance(answer, Preempt):
            return
        for plan in plans_of(answer):
            preemptor = self.life.waiting.get(plan.uid) if plan.uid else pod
            allowed = preemptor is None or preemptor.may_preempt or not plan.victims
            where = f"in the phase {call.phase.value}"
            promise(allowed, f"{preemptor and preemptor.key} may not preempt, and the plan has victims for it {where}")


class PlansNameWaitingPods(OfAnswers):
    name = "plans-name-waiting-pods"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if not isinstance(answer, Preempt) or not answer.gang_members:
            return
        promise(call.phase is Phase.EVICTING, f"{pod.key} has gang_members in the phase {call.phase.value}")
        named = [plan.uid for plan in answer.gang_members]
        promise(len(set(named)) == len(named), f"the plan of {pod.key} names a pod of its gang twice")
        for uid in named:
            promise(uid != pod.uid, f"the plan of {pod.key} names {pod.key} among its gang_members")
            promise(uid in self.life.waiting, f"the plan of {pod.key} names {uid}, which does not wait")


class ProtectedSpared(OfAnswers):
    name = "protected-pods-spared"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if call.phase is Phase.EVICTING:
            for victim in victims_of(answer):
                promise(
                    victim.uid not in self.life.protected,
                    f"{pod.key} names victim {victim.uid}, which is protected",
                )


class LingeringSpared(OfAnswers):
    name = "lingering-pods-spared"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        for victim in victims_of(answer):
            promise(
                victim.uid not in self.life.lingering,
                f"{pod.key} names victim {victim.uid}, which lingers, in the phase {call.phase.value}",
            )


class OnlyRefusals(OfAnswers):
    name = "questions-raise-only-refusals"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if not isinstance(answer, Exception):
            return
        asked = f"schedule({pod.key}, {call.phase.value})"
        promise(isinstance(answer, PodRefused), f"{asked} raised {shown(answer)}")
        assert isinstance(answer, PodRefused)
        flaw = _flaw_of_reason(answer.reason)
        promise(not flaw, f"{asked} raised PodRefused, and {flaw}")


class IncompleteGangsHaveNames(OfAnswers):
    name = "incomplete-gangs-have-names"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if not isinstance(answer, Wait) or answer.reason.code is not Code.GANG_INCOMPLETE:
            return
        gang = self.life.algorithm.gang(pod)
        named = isinstance(gang, GangInfo) and bool(gang.name)
        promise(named, f"{pod.key} waits with {answer.reason.code.value}, and gang({pod.key}) is {gang!r}")
