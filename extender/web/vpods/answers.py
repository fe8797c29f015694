"""The response bodies of dry runs and explanations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from extender.vpods.copies import SetCopy
from extender.vpods.explaining import Explanation
from extender.vpods.planning import Plan
from extender.vpods.steps import Moved, Scaled
from extender.web.vpods.bodies import SumsBody, pod_of, sums_body


class MoveStepBody(BaseModel):
    """Vreplicas that would move. `source` null: new; `target` null: given up."""

    kind: Literal["move"] = "move"
    seconds: float = Field(description="When, counted from now")
    due: bool = Field(description="It is due without any change")
    vpod: str
    source: str | None
    target: str | None
    vreplicas: int
    why: str = Field(description="`lost pod`, `closed pod`, `drain`, `too full`, `evenness`, `growth` or `shrinkage`")


class ScaleStepBody(BaseModel):
    """The replicas of the StatefulSet would change."""

    kind: Literal["scale"] = "scale"
    seconds: float
    due: bool
    before: int
    after: int
    pods: list[str] = Field(description="Pods that come or go, in their order; the first 100")


class LackingBody(BaseModel):
    """A vpod that would lack room."""

    vpod: str
    wanted: int
    pending: int
    reason: str
    message: str


class PlanBody(BaseModel):
    """What would happen. Nothing has happened."""

    namespace: str
    name: str
    before: SumsBody
    after: SumsBody
    steps: list[Annotated[MoveStepBody | ScaleStepBody, Field(discriminator="kind")]] = Field(
        description="In order; the first `limit` of `steps_total`"
    )
    steps_total: int
    moves: dict[str, int] = Field(description="Vreplicas that would move from pod to pod, by reason")
    grown: int = Field(description="Vreplicas that would be new")
    given_up: int = Field(description="Vreplicas that would go")
    waiting: list[LackingBody] = Field(description="VPods that would lack room, the longest wait first")
    waiting_total: int
    held_before: dict[str, int] = Field(description="Vreplicas by pod")
    held_after: dict[str, int]
    seconds: float = Field(description="When the last of it would happen, counted from now")
    complete: bool = Field(description="false: it was stopped, so more would happen")


class RuleBody(BaseModel):
    """A rule of the policy, and what it came to. The first rule goes before all others."""

    rule: str
    outcome: str
    kept: bool = Field(description="false: it cannot be kept as things are, or is not kept yet")


class ShareBody(BaseModel):
    """What a vpod has on one pod, and why not more or less."""

    pod: str
    zone: str
    state: str
    vreplicas: int
    others: int = Field(description="What other vpods hold there")
    why: str


class HelpBody(BaseModel):
    """A change with which all its vreplicas would find room, tried out on a copy."""

    change: Literal["replicas", "capacity", "open"]
    value: int | None = Field(description="The smallest number that does")
    text: str


class ExplanationBody(BaseModel):
    """Why a vpod is where it is, why it waits, and what would help."""

    vpod: str
    namespace: str = Field(description="Of the set")
    name: str
    wanted: int
    placed: int
    pending: int
    reason: str
    message: str
    waits_seconds: float | None
    waits: list[str] = Field(description="Why it lacks room; empty if it does not")
    rules: list[RuleBody] = Field(description="Of the policy balanced; empty with another policy")
    pods: list[ShareBody]
    helps: list[HelpBody]
    complete: bool = Field(description="false: it was stopped before everything was tried")


def plan_body(copy: SetCopy, plan: Plan) -> PlanBody:
    """Return the body of a plan. `copy` names the pods."""
    return PlanBody(
        namespace=copy.key.namespace,
        name=copy.key.name,
        before=sums_body(plan.before),
        after=sums_body(plan.after),
        steps=[_step(copy, step, is_due=number < plan.steps_due) for number, step in enumerate(plan.steps)],
        steps_total=plan.steps_total,
        moves=dict(plan.moves),
        grown=plan.grown,
        given_up=plan.given_up,
        waiting=[
            LackingBody(
                vpod=each.vpod,
                wanted=each.vreplicas,
                pending=each.pending,
                reason=each.reason,
                message=each.message,
            )
            for each in plan.waiting
        ],
        waiting_total=plan.waiting_total,
        held_before={pod_of(copy, ordinal): number for ordinal, number in plan.held_before.items()},
        held_after={pod_of(copy, ordinal): number for ordinal, number in plan.held_after.items()},
        seconds=plan.seconds,
        complete=plan.is_at_rest,
    )


def _step(copy: SetCopy, step: Moved | Scaled, *, is_due: bool) -> MoveStepBody | ScaleStepBody:
    seconds = round(step.at, 3)
    if isinstance(step, Scaled):
        there = range(step.before, step.after) or range(step.before - 1, step.after - 1, -1)
        pods = [pod_of(copy, ordinal) for ordinal in there[:100]]
        return ScaleStepBody(seconds=seconds, due=is_due, before=step.before, after=step.after, pods=pods)
    return MoveStepBody(
        seconds=seconds,
        due=is_due,
        vpod=step.vpod,
        source=None if step.source is None else pod_of(copy, step.source),
        target=None if step.target is None else pod_of(copy, step.target),
        vreplicas=step.vreplicas,
        why=step.why.value,
    )


def explanation_body(copy: SetCopy, found: Explanation) -> ExplanationBody:
    """Return the body of an explanation."""
    return ExplanationBody(
        vpod=found.vpod,
        namespace=copy.key.namespace,
        name=copy.key.name,
        wanted=found.wanted,
        placed=found.placed,
        pending=found.pending,
        reason=found.reason,
        message=found.message,
        waits_seconds=found.waits_seconds,
        waits=list(found.waits),
        rules=[RuleBody(rule=each.rule, outcome=each.outcome, kept=each.is_kept) for each in found.rules],
        pods=[
            ShareBody(
                pod=pod_of(copy, each.ordinal),
                zone=each.zone,
                state=each.stage.value,
                vreplicas=each.vreplicas,
                others=each.others,
                why=each.why,
            )
            for each in found.pods
        ],
        helps=[HelpBody(change=each.change, value=each.value, text=each.text) for each in found.helps],
        complete=found.is_complete,
    )
