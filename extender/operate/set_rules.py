"""The rules of `waggle lint vpods`: misconfigurations because of which vpods get no pods, or lose them.

Each rule has an example, tests/fixtures/lint-vpods/CODE.yaml, which docs/vpod-lint.md shows and a test checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from algorithm.placements import registry
from algorithm.placements.policy import PolicyError
from extender.operate.document import Section
from extender.operate.rules import Severity
from extender.operate.scene import name_of, selector_of, texts
from extender.operate.scene_rules import Catalogue
from extender.operate.set_scene import LintedSet, SetScene
from extender.vpods.records import ObjectKey

SETS = Catalogue[SetScene, LintedSet]("set", "docs/vpod-lint.md")


# -- the configuration --------------------------------------------------------------------------------------------


@SETS.rule_of_all(
    "WL801",
    "vpods-off",
    Severity.ERROR,
    happens="The configuration has sets or resources, but `vpods.enabled` is false: nothing is placed.",
    mend="Set vpods.enabled: true.",
    needs="",
)
def vpods_off(scene: SetScene) -> Iterator[str]:
    vpods = scene.settings.vpods if scene.settings else None
    if vpods is not None and not vpods.enabled and (vpods.sets or vpods.resources):
        yield "vpods.enabled is false"


@SETS.rule_of_all(
    "WL802",
    "no-election",
    Severity.INFO,
    happens="Every replica of this configuration decides. Two of them would correct each other for ever; one alone is "
    "fine, and nothing is placed while it is away.",
    mend="Set leader_election.enabled: true if there is more than one replica.",
    needs="",
)
def no_election(scene: SetScene) -> Iterator[str]:
    settings = scene.settings
    if settings is not None and settings.vpods.enabled and not settings.leader_election.enabled:
        yield "leader_election.enabled is false"


@SETS.rule(
    "WL803",
    "invalid-set",
    Severity.ERROR,
    happens="The VPodSet is not valid, so it is not served (Misconfigured, InvalidSpec): its vpods stay where they "
    "are, and its StatefulSet is not scaled.",
    mend="Correct the field. With the CustomResourceDefinition of manifests/crds the API server refuses such an "
    "object.",
    needs="",
)
def invalid_set(_: SetScene, linted: LintedSet) -> Iterator[str]:
    if linted.fault:
        yield linted.fault


@SETS.rule(
    "WL804",
    "stateful-set-taken",
    Severity.ERROR,
    happens="Two sets name the same StatefulSet. With two such sets in its configuration, Waggle does not start; of "
    "two VPodSet objects the older one is served, and the other one is Misconfigured (StatefulSetTaken).",
    mend="Use one set for each StatefulSet. VPods of several teams can share it: see `namespaces`.",
    needs="",
)
def stateful_set_taken(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    for other in scene.sets[: scene.sets.index(linted)]:
        ours, theirs = linted.settings, other.settings
        if ours and theirs and ours.workload == theirs.workload and linted.key.namespace == other.key.namespace:
            yield f"{other} has the StatefulSet {ours.workload}, too"


@SETS.rule(
    "WL805",
    "bad-policy",
    Severity.ERROR,
    happens="The policy is not installed, or its settings are wrong: the vpods of the set stay where they are "
    "(PolicyFailed). A VPodSet object is not served (Misconfigured, BadPolicy).",
    mend="Name a policy that is installed where Waggle runs, with settings that it has. `waggle check` refuses such a "
    "configuration.",
    needs="",
)
def bad_policy(_: SetScene, linted: LintedSet) -> Iterator[str]:
    if linted.settings is None:
        return
    try:
        registry.create(linted.settings.policy, linted.settings.policy_settings)
    except PolicyError as error:
        yield str(error)


# -- vpods --------------------------------------------------------------------------------------------------------


@SETS.rule_of_all(
    "WL811",
    "unknown-set",
    Severity.ERROR,
    happens="A vpod, or a resource of `vpods.resources`, names a set that does not exist: nothing is placed "
    "(UnknownSet).",
    mend="Create the VPodSet, or correct the name. NAME alone is a set in the vpod's own namespace.",
)
def unknown_set(scene: SetScene) -> Iterator[str]:
    known = {each.key for each in scene.sets}
    for vpod in scene.vpods():
        if vpod.set not in known:
            yield f"{vpod}: spec.set: {vpod.set}"
    for resource in scene.settings.vpods.resources if scene.settings else ():
        if _key(resource.set) not in known:
            yield f"vpods.resources: {resource.name}: set: {resource.set}"


@SETS.rule_of_all(
    "WL812",
    "not-allowed",
    Severity.ERROR,
    happens="The set does not admit the vpod's namespace: the vpod gets no pods (NotAllowed).",
    mend="Add the vpod's namespace to the set's `namespaces`.",
)
def not_allowed(scene: SetScene) -> Iterator[str]:
    for vpod in scene.vpods():
        host = scene.set(vpod.set)
        if host and host.settings and not host.settings.admits(vpod.key.namespace):
            yield f"{vpod}: {host} allows {', '.join(host.settings.namespaces) or 'only its own namespace'}"


@SETS.rule(
    "WL813",
    "too-small",
    Severity.WARNING,
    happens="The vpods of the set want more vreplicas than its pods can hold at max_replicas: some wait for ever "
    "(NotEnoughRoom).",
    mend="Raise max_replicas or capacity, or scale the vpods down.",
)
def too_small(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    wanted = sum(vpod.wanted for vpod in scene.vpods() if vpod.set == linted.key)
    if linted.settings and wanted > linted.settings.capacity * linted.settings.max_replicas:
        room = linted.settings.capacity * linted.settings.max_replicas
        yield f"VPods want {wanted}; {linted.settings.max_replicas} replicas hold {room}"


@SETS.rule_of_all(
    "WL814",
    "spread-too-wide",
    Severity.WARNING,
    happens="The spread is larger than the number of pods that the set may have: it is never reached.",
    mend="Raise max_replicas, or lower the spread.",
    needs="",
)
def spread_too_wide(scene: SetScene) -> Iterator[str]:
    asked = [(str(vpod), vpod.set, min(vpod.spread, vpod.wanted)) for vpod in scene.vpods()]
    for each in scene.settings.vpods.resources if scene.settings else ():
        asked.append((f"vpods.resources: {each.name}", _key(each.set), each.spread))
    for who, key, spread in asked:
        host = scene.set(key)
        if host and host.settings and spread > host.settings.max_replicas:
            yield f"{who}: {spread} pods; {host} has {host.settings.max_replicas} at most"


# -- the StatefulSet ----------------------------------------------------------------------------------------------


@SETS.rule(
    "WL821",
    "no-stateful-set",
    Severity.ERROR,
    happens="There is no such StatefulSet in the set's namespace: nothing is placed (NoStatefulSet).",
    mend="Create it, or correct stateful_set. It must be in the namespace of the set.",
)
def no_stateful_set(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    if linted.settings and scene.workload(linted) is None and "statefulsets" not in " ".join(scene.unread):
        yield f"StatefulSet {linted.key.namespace}/{linted.settings.workload}"


@SETS.rule(
    "WL822",
    "two-autoscalers",
    Severity.ERROR,
    happens="An autoscaler changes the replicas of the StatefulSet, and Waggle does, too: each undoes the other's "
    "changes, and vreplicas move each time.",
    mend="Remove the autoscaler, or set `autoscale: false`. To follow a load, let the autoscaler scale the vpods: they "
    "have a scale subresource.",
)
def two_autoscalers(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    if linted.settings is None or not linted.settings.scales:
        return
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        for each in scene.of(kind, linted.key.namespace):
            target = each.section("spec").section("scaleTargetRef")
            is_ours = target.text("kind") == "StatefulSet" and target.text("name") == linted.settings.workload
            if is_ours:
                yield f"{kind} {name_of(each)}"


@SETS.rule(
    "WL823",
    "ordinals-start",
    Severity.ERROR,
    happens="The ordinals of the StatefulSet do not start at 0 (spec.ordinals.start). Waggle expects pods 0 to "
    "replicas - 1, so it leaves the set alone: nothing is placed (NoStatefulSet), and nothing is scaled.",
    mend="Remove spec.ordinals.",
)
def ordinals_start(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    workload = scene.workload(linted)
    start = workload.section("spec").section("ordinals").number("start") if workload else None
    if start:
        yield f"spec.ordinals.start is {start:g}"


@SETS.rule(
    "WL824",
    "one-after-another",
    Severity.WARNING,
    happens="The pods start one after another, each after the previous one is ready: growth by ten pods takes ten "
    "times as long as the start of one, and one pod that does not become ready stops it.",
    mend="Create the StatefulSet with spec.podManagementPolicy: Parallel. It cannot be changed later.",
)
def one_after_another(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    workload = scene.workload(linted)
    if workload and workload.section("spec").text("podManagementPolicy") != "Parallel":
        yield f"spec.podManagementPolicy of {name_of(workload)} is not Parallel"


@SETS.rule(
    "WL825",
    "no-readiness",
    Severity.WARNING,
    happens="No container has a readiness probe: a pod counts as ready as soon as its containers run, and gets "
    "vreplicas before it can serve them.",
    mend="Give the container that hosts vreplicas a readinessProbe.",
)
def no_readiness(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    workload = scene.workload(linted)
    if workload is None:
        return
    containers = workload.section("spec").section("template").section("spec").items("containers")
    if not any("readinessProbe" in each for each in containers):
        yield f"StatefulSet {name_of(workload)}"


@SETS.rule(
    "WL826",
    "no-budget",
    Severity.INFO,
    happens="No PodDisruptionBudget selects the pods: a drain of nodes may take several away at once, faster than "
    "their vreplicas can move.",
    mend="Create a PodDisruptionBudget with maxUnavailable: 1.",
)
def no_budget(scene: SetScene, linted: LintedSet) -> Iterator[str]:
    workload = scene.workload(linted)
    if workload is None or "poddisruptionbudgets" in " ".join(scene.unread):
        return
    template = workload.section("spec").section("template")
    labels = texts(template.section("metadata").section("labels"))
    budgets = scene.of("PodDisruptionBudget", linted.key.namespace)
    if not any(_selects(each, labels) for each in budgets):
        yield f"StatefulSet {name_of(workload)}"


def _selects(budget: Section, labels: dict[str, str]) -> bool:
    plain, _ = selector_of(budget.section("spec").section("selector"))
    return plain.items() <= labels.items()


# -- other resources ----------------------------------------------------------------------------------------------


@SETS.rule_of_all(
    "WL831",
    "unknown-resource",
    Severity.ERROR,
    happens="No CustomResourceDefinition has this group, resource and version, or it does not serve the version: "
    "Waggle is not ready until there is one (/readyz says so).",
    mend="Install it, or correct the entry of vpods.resources.",
)
def unknown_resource(scene: SetScene) -> Iterator[str]:
    for name, found in _definitions(scene):
        if found is None:
            yield name


@SETS.rule_of_all(
    "WL832",
    "no-status",
    Severity.ERROR,
    happens="The resource has no subresource `status`, through which Waggle writes placements: every write is refused "
    "(404).",
    mend="Add `subresources: {status: {}}` to this version of the CustomResourceDefinition.",
)
def no_status(scene: SetScene) -> Iterator[str]:
    for name, found in _definitions(scene):
        if found is not None and "status" not in found.section("subresources").fields:
            yield name


def _definitions(scene: SetScene) -> Iterator[tuple[str, Section | None]]:
    """The configured resources whose definitions were read: a name, and the version; None if there is none."""
    if "CustomResourceDefinition" not in (scene.objects or {}) or scene.settings is None:
        return
    definitions = {name_of(each): each.section("spec") for each in scene.of("CustomResourceDefinition")}
    for each in scene.settings.vpods.resources:
        if "." not in each.group:
            continue  # a resource of Kubernetes itself
        spec = definitions.get(f"{each.resource}.{each.group}", Section({}))
        served = (v for v in spec.items("versions") if v.text("name") == each.version and v.flag("served"))
        yield f"vpods.resources: {each.name}: {each.resource}.{each.group}/{each.version}", next(served, None)


# -- rights -------------------------------------------------------------------------------------------------------


@SETS.rule_of_all(
    "WL841",
    "rights-missing",
    Severity.ERROR,
    happens="Waggle lacks rights: it cannot read the pods of a set, or its writes are refused.",
    mend="Run kubectl -n NAMESPACE apply -f manifests/vpods/set-namespace.yaml for the namespaces of sets; "
    "manifests/vpods/consumergroups.yaml is an example for the resources of vpods.resources.",
    needs="cluster",
)
def rights_missing(scene: SetScene) -> Iterator[str]:
    for namespace, missing in (scene.missing_rights or {}).items():
        if missing:
            yield f"may not {', '.join(missing)}" + (f" in namespace {namespace}" if namespace else "")


def _key(text: str) -> ObjectKey:
    namespace, _, name = text.partition("/")
    return ObjectKey(namespace, name)
