"""Rules about what an extender is asked, what its answers count for, and which pods are sent to it."""

from __future__ import annotations

from collections.abc import Iterator

from extender.embedded.kubescheduler.config import DEFAULT_SCHEDULER, ManagedResource
from extender.operate.document import At, Section
from extender.operate.rules import Severity, rule
from extender.operate.rules_connection import VERBS
from extender.operate.rules_scheduler import for_trying, managed, scheduler_names
from extender.operate.scheduler_config import MARKERS

_LARGEST_WEIGHT = 1000

# -- verbs --------------------------------------------------------------------------------------------------------


@rule(
    "WL401",
    "ignorable",
    Severity.WARNING,
    happens="While Waggle fails or is away, every node counts as fitting and no refusal is heard: gangs are torn "
    "apart, and what Waggle keeps for others is taken.",
    mend="ignorable: false. To keep other pods independent of Waggle, name managedResources.",
)
def ignorable(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.flag("ignorable") and not extender.text("bindVerb"):
            yield extender.at("ignorable")


@rule(
    "WL402",
    "ignorable-binder",
    Severity.ERROR,
    happens="A bind that Waggle refuses for cause is done all the same by the default binder, without the annotations "
    "that tell which devices the pod has; and a failing filter counts as 'all nodes fit'.",
    mend="ignorable: false.",
)
def ignorable_binder(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.flag("ignorable") and extender.text("bindVerb"):
            yield extender.at("ignorable")


@rule(
    "WL403",
    "no-filter",
    Severity.ERROR,
    happens="Waggle decides in filter and binds only what it proposed there: without filter every bind is refused and "
    "the pods stay Pending.",
    mend="filterVerb: filter.",
)
def no_filter(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if any(extender.text(verb) for verb in VERBS) and not extender.text("filterVerb"):
            yield extender.at("filterVerb")


@rule(
    "WL404",
    "no-bind",
    Severity.WARNING,
    happens="kube-scheduler binds by itself, and the decision is not written on the pod: after a restart an algorithm "
    "that assigns devices or cells cannot know which pod has which.",
    mend="bindVerb: bind.",
)
def no_bind(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.text("filterVerb") and not extender.text("bindVerb"):
            yield extender.at("bindVerb")


@rule(
    "WL405",
    "no-preempt",
    Severity.WARNING,
    happens="kube-scheduler evicts pods without asking; then filter refuses the node that was cleared, and the next "
    "one is cleared: pods die for one that Waggle will never admit.",
    mend="preemptVerb: preempt.",
)
def no_preempt(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.text("filterVerb") and not extender.text("preemptVerb"):
            yield extender.at("preemptVerb")


@rule(
    "WL406",
    "two-binders",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: one extender at most may bind, even if they manage different resources.",
    mend="Leave bindVerb to one of them.",
)
def two_binders(config: Section) -> Iterator[At]:
    binders = [extender for extender in config.items("extenders") if extender.text("bindVerb")]
    yield from (extender.at("bindVerb") for extender in binders[1:])


@rule(
    "WL407",
    "no-verb",
    Severity.WARNING,
    happens="The extender is never called.",
    mend="filterVerb: filter, preemptVerb: preempt, bindVerb: bind.",
)
def no_verb(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if not any(extender.text(verb) for verb in VERBS):
            yield extender.at()


@rule(
    "WL408",
    "same-extender-twice",
    Severity.WARNING,
    happens="Every pod is sent to the same server twice in each attempt; while that happens nothing else is scheduled.",
    mend="One entry for each server. Two entries are of use only if they have different verbs.",
)
def same_extender_twice(config: Section) -> Iterator[At]:
    seen: set[tuple[str, str]] = set()
    for extender in config.items("extenders"):
        calls = {(extender.text("urlPrefix").rstrip("/"), verb) for verb in VERBS if extender.text(verb)}
        if calls & seen:
            yield extender.at("urlPrefix")
        seen |= calls


# -- answers ------------------------------------------------------------------------------------------------------


@rule(
    "WL411",
    "weight-not-positive",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: with a prioritizeVerb the weight has to be positive.",
    mend="weight: 1, or no prioritizeVerb.",
)
def weight_not_positive(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.text("prioritizeVerb") and (extender.number("weight") or 0) <= 0:
            yield extender.at("weight")


@rule(
    "WL412",
    "huge-weight",
    Severity.WARNING,
    happens="Scores are multiplied by 10 and the weight and then added: every other plug-in (spreading, affinity, "
    "image locality) has no say any more, and very large weights overflow.",
    mend="A weight up to 100. To decide rather than to advise, filter already names one node.",
)
def huge_weight(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.text("prioritizeVerb") and (extender.number("weight") or 0) > _LARGEST_WEIGHT:
            yield extender.at("weight")


@rule(
    "WL413",
    "weight-without-use",
    Severity.INFO,
    happens="Nothing: a weight counts only with a prioritizeVerb.",
    mend="Take weight away.",
)
def weight_without_use(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if "weight" in extender and not extender.text("prioritizeVerb"):
            yield extender.at("weight")


@rule(
    "WL414",
    "whole-node-objects",
    Severity.WARNING,
    happens="Every call carries all nodes in full, 1.3 MB and more for 1,000: ten times the CPU in kube-scheduler. "
    "From 1.34 to 1.36 its own scores then take every node for empty. A wrong answer is not even checked.",
    mend="nodeCacheCapable: true. Waggle knows the nodes.",
)
def whole_node_objects(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if not extender.flag("nodeCacheCapable"):
            yield extender.at("nodeCacheCapable")


# -- which pods ---------------------------------------------------------------------------------------------------


@rule(
    "WL501",
    "every-pod",
    Severity.WARNING,
    happens="Every pod of the default scheduler waits for Waggle: those of kube-system, and Waggle's own, which "
    "cannot be scheduled while Waggle is away. This is not reported for one machine on which somebody tries things: "
    "without leader election, and with all extenders on the loopback.",
    mend="managedResources with the resources that Waggle looks after; or a second scheduler with its own "
    "schedulerName.",
)
def every_pod(config: Section) -> Iterator[At]:
    several = len(config.items("profiles")) > 1
    if DEFAULT_SCHEDULER not in scheduler_names(config) or several or for_trying(config):
        return
    for extender in config.items("extenders"):
        if not managed(extender) and not extender.flag("ignorable"):
            yield extender.at("managedResources")


@rule(
    "WL502",
    "ignored-by-scheduler",
    Severity.WARNING,
    happens="kube-scheduler does not count the resource, so it never sees that evicting pods would help: the "
    "preemptVerb is not called when this resource is short (since 1.22).",
    mend="ignoredByScheduler: false, with the resource in the nodes' capacity; or let Waggle evict by itself "
    "(preemption.mode in its configuration).",
)
def ignored_by_scheduler(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        for resource in extender.items("managedResources"):
            if resource.flag("ignoredByScheduler") and resource.text("name") not in MARKERS:
                yield resource.at("ignoredByScheduler")


@rule(
    "WL503",
    "not-an-extended-resource",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: only extended resources can be managed by an extender, not cpu or memory.",
    mend="A name with a domain of its own, such as example.com/gpu.",
)
def not_an_extended_resource(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        for resource in extender.items("managedResources"):
            if not _is_extended(resource.text("name")):
                yield resource.at("name")


def _is_extended(name: str) -> bool:
    try:
        ManagedResource(name=name)
    except ValueError:
        return False
    return True


@rule(
    "WL504",
    "resource-twice",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: a resource may be managed once, over all extenders.",
    mend="Take the second one away.",
)
def resource_twice(config: Section) -> Iterator[At]:
    seen = set()
    for extender in config.items("extenders"):
        for resource in extender.items("managedResources"):
            name = resource.text("name")
            if name in seen:
                yield resource.at("name")
            seen.add(name)


@rule(
    "WL505",
    "marker-counted",
    Severity.ERROR,
    happens="The resource only marks pods, and no node has it: kube-scheduler finds it insufficient on every node, and "
    "its pods wait for ever without a call to Waggle.",
    mend="ignoredByScheduler: true for this resource.",
)
def marker_counted(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        for resource in extender.items("managedResources"):
            if resource.text("name") in MARKERS and not resource.flag("ignoredByScheduler"):
                yield resource.at("ignoredByScheduler")
