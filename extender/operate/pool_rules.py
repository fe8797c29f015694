"""The rules of `waggle lint pool`: misconfigurations because of which claims get wrong pods, or none.

Each rule has an example, tests/fixtures/lint-pools/CODE.yaml, which docs/pool-lint.md shows and a test checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.claims.writes.names import CLAIM_ANNOTATION, PHASE_LABEL
from extender.operate.pool_scene import LintedPool, Scene, Workload
from extender.operate.rules import Severity
from extender.operate.scene import name_of, selector_of, texts
from extender.operate.scene_rules import Catalogue

_REPLICASET_CONTROLLER = "kube-system:replicaset-controller"

POOLS = Catalogue[Scene, LintedPool]("pool", "docs/pool-lint.md")


# -- the configuration --------------------------------------------------------------------------------------------


@POOLS.rule_of_all(
    "WL701",
    "claims-off",
    Severity.ERROR,
    happens="The configuration has pools, but `claims.enabled` is false: no pool is served, and every request gets "
    "404.",
    mend="Set claims.enabled: true.",
    needs="",
)
def claims_off(scene: Scene) -> Iterator[str]:
    if scene.settings is not None and scene.settings.claims.pools and not scene.settings.claims.enabled:
        yield "claims.enabled is false"


@POOLS.rule_of_all(
    "WL702",
    "everybody-claims",
    Severity.WARNING,
    happens="The server listens beyond the loopback interface, requires no client certificate, and "
    "`claims.authorization` is none: every client that reaches the port can claim pods for any tenant, and "
    "end the claims of others.",
    mend="Set claims.authorization: kubernetes, or server.tls.client_ca_file.",
    needs="",
)
def everybody_claims(scene: Scene) -> Iterator[str]:
    settings = scene.settings
    if settings is None or not settings.claims.enabled or settings.claims.authorization != "none":
        return
    tls = settings.server.tls
    if settings.server.host not in ("127.0.0.1", "::1", "localhost") and (tls is None or tls.client_ca_file is None):
        yield f"server.host is {settings.server.host}, claims.authorization is none"


@POOLS.rule_of_all(
    "WL703",
    "overlap",
    Severity.ERROR,
    happens="A pod can match the selectors of both pools. With two such pools in its configuration, Waggle does not "
    "start; a Pool object that overlaps an older or a configured pool is not served (SelectorsOverlap).",
    mend="Give both selectors the same label with different values.",
    needs="",
)
def overlap(scene: Scene) -> Iterator[str]:
    for index, one in enumerate(scene.pools):
        for other in scene.pools[index + 1 :]:
            if one.namespace == other.namespace and all(
                other.selector.get(name, value) == value for name, value in one.selector.items()
            ):
                yield f"{one} and {other}"


# -- which pods ---------------------------------------------------------------------------------------------------


@POOLS.rule(
    "WL711",
    "nothing-selected",
    Severity.ERROR,
    happens="No workload of the namespace creates pods with these labels, and no pod has them: requests wait until "
    "their deadline. The labels of the Deployment itself do not count; those of its pod template do.",
    mend="Add the pool's labels to the workload's pod template (spec.template.metadata.labels).",
)
def nothing_selected(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if scene.of_pool(pool):
        return
    meant = next((each for each in scene.workloads(pool.namespace) if pool.takes(each.labels)), None)
    yield (
        f"{meant} itself has these labels, but its pods lack them" if meant else f"nothing has the labels {_text(pool)}"
    )


@POOLS.rule(
    "WL712",
    "several-workloads",
    Severity.WARNING,
    happens="The pool has pods of several workloads. A claim gets a pod of any of them, and may take a pod out of a "
    "workload that was not meant to be a pool.",
    mend="Use a selector that matches the pods of one workload only. For two versions, use two pools, or let "
    "claims choose by `requires`.",
)
def several_workloads(scene: Scene, pool: LintedPool) -> Iterator[str]:
    found = scene.of_pool(pool)
    if len(found) > 1:
        yield ", ".join(map(str, found[:5]))


# -- owners -------------------------------------------------------------------------------------------------------


@POOLS.rule(
    "WL721",
    "adopted-again",
    Severity.ERROR,
    happens="A claim removes the labels of the pool's selector from its pod. None of them is in the workload's own "
    "selector, so the ReplicaSet adopts the claimed pod again: it creates no replacement, and a scale-down or"
    " a roll-out deletes the claimed pod.",
    mend="Use a label of the workload's own selector (spec.selector.matchLabels) as the pool's selector. A "
    "Deployment's selector cannot be changed: if it lacks such a label, create the Deployment again.",
)
def adopted_again(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode != "detach":
        return
    for each in scene.of_pool(pool):
        if each.kind in ("Deployment", "ReplicaSet") and not each.selected_by & set(pool.selector):
            yield f"{each} selects by {', '.join(sorted(each.selected_by)) or 'nothing'}"


@POOLS.rule(
    "WL722",
    "not-replaceable",
    Severity.ERROR,
    happens="Only a ReplicaSet replaces a pod that a claim takes out of it. A StatefulSet needs the name that the "
    "claimed pod keeps, a DaemonSet starts another pod on the same node, a Job counts the pod as lost, and a "
    "pod without an owner is not replaced at all: the pool becomes empty.",
    mend="Use a Deployment; or mode: recycle, in which pods keep their owner.",
)
def not_replaceable(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode == "detach":
        yield from (str(each) for each in scene.of_pool(pool) if each.kind not in ("Deployment", "ReplicaSet"))


@POOLS.rule(
    "WL723",
    "no-policy",
    Severity.WARNING,
    happens="The ReplicaSet controller deletes pods without preconditions, from a cache that can be out of date: it "
    "killed 82 of 479 pods that were claimed during a scale-down. With the policy that comes with Waggle it "
    "killed none of 480.",
    mend="Apply manifests/components/claims-guard (Kubernetes 1.30 or newer). Without it, do not scale down while "
    "there are claims.",
)
def no_policy(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if not scene.of_pool(pool) or "ValidatingAdmissionPolicy" in _unreadable(scene):
        return
    policies = {
        name_of(each)
        for each in scene.of("ValidatingAdmissionPolicy")
        if CLAIM_ANNOTATION in str(each.fields) and _REPLICASET_CONTROLLER in str(each.fields)
    }
    bound = {
        each.section("spec").text("policyName")
        for each in scene.of("ValidatingAdmissionPolicyBinding")
        if "Deny" in str(each.section("spec").fields.get("validationActions"))
    }
    if not policies & bound:
        yield "no ValidatingAdmissionPolicy keeps the ReplicaSet controller from deleting claimed pods"


@POOLS.rule(
    "WL724",
    "shrinking",
    Severity.WARNING,
    happens="The workload has more pods than replicas, so its controller is deleting pods now: an idle pod may be "
    "deleted a moment after it was claimed.",
    mend="Wait until it has deleted them. Apply manifests/components/claims-guard, so that it deletes no claimed pod.",
)
def shrinking(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for each in scene.of_pool(pool):
        wanted, has = _replicas(each), each.object.section("status").number("replicas") or 0
        if wanted is not None and has > wanted:
            yield f"{each} has {has:g} of {wanted:g} pods"


@POOLS.rule(
    "WL725",
    "no-replicas",
    Severity.WARNING,
    happens="The workload has no replicas: the pool is empty, and requests wait until their deadline.",
    mend="Scale it to the number of idle pods that you want to keep.",
)
def no_replicas(scene: Scene, pool: LintedPool) -> Iterator[str]:
    yield from (f"{each} has 0 replicas" for each in scene.of_pool(pool) if _replicas(each) == 0)


@POOLS.rule(
    "WL726",
    "autoscaled-by-use",
    Severity.WARNING,
    happens="A HorizontalPodAutoscaler scales the workload by the load of its pods. Idle pods have no load, and "
    "claimed pods no longer count: it shrinks the pool while requests wait.",
    mend="Use claims.pools.autoscaler, or scale by waggle_pool_waiting_requests and waggle_pool_idle_pods "
    "(external metrics).",
)
def autoscaled_by_use(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for scaler in scene.of("HorizontalPodAutoscaler", pool.namespace):
        target, metrics = scaler.section("spec").section("scaleTargetRef"), scaler.section("spec").items("metrics")
        if metrics and all(each.text("type") in ("External", "Object") for each in metrics):
            continue
        for each in scene.of_pool(pool):
            if (target.text("kind"), target.text("name")) == (each.kind, each.name):
                yield f"HorizontalPodAutoscaler {name_of(scaler)} scales {each}"


@POOLS.rule(
    "WL727",
    "budget-without-controller",
    Severity.WARNING,
    happens="A PodDisruptionBudget also selects claimed pods, which have no controller. With a percentage or "
    "maxUnavailable it then allows no eviction at all: `kubectl drain` hangs on every node with a claimed "
    "pod.",
    mend="Select by a label of the pool's selector, which claimed pods lose; or set minAvailable to a number.",
)
def budget_without_controller(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode != "detach":
        return
    for budget in scene.of("PodDisruptionBudget", pool.namespace):
        spec = budget.section("spec")
        plain, keys = selector_of(spec.section("selector"))
        if isinstance(spec.fields.get("minAvailable"), int) or keys & set(pool.selector):
            continue
        if _selects_pods(scene, pool, plain):
            yield f"PodDisruptionBudget {name_of(budget)}"


# -- pods ---------------------------------------------------------------------------------------------------------


@POOLS.rule(
    "WL731",
    "no-phase",
    Severity.ERROR,
    happens="With mode: recycle, the label waggle.dev/phase says whether a pod is idle. A pod with another value is "
    "never claimed. A pod without the label can be claimed, but not with `images`: such claims find no pod.",
    mend="Set waggle.dev/phase: idle in the labels of the pod template.",
)
def no_phase(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode == "recycle":
        for each in scene.of_pool(pool):
            if each.pod_labels.get(PHASE_LABEL) != "idle" and each.kind != "Pod":
                yield f"pods of {each} are created with phase {each.pod_labels.get(PHASE_LABEL) or '(none)'}"


@POOLS.rule(
    "WL732",
    "phase-selected",
    Severity.ERROR,
    happens="The workload selects its pods by waggle.dev/phase, which a claim changes. So a claimed pod leaves its "
    "ReplicaSet, which creates another one; when the claim ends, the ReplicaSet adopts the pod again, and "
    "deletes one pod because it has too many.",
    mend="Remove the label from the workload's selector.",
)
def phase_selected(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode == "recycle":
        yield from (str(each) for each in scene.of_pool(pool) if PHASE_LABEL in each.selected_by)


@POOLS.rule(
    "WL733",
    "no-readiness",
    Severity.WARNING,
    happens="A container without a readiness probe counts as ready as soon as it runs: a claim can get a pod before "
    "its containers can serve.",
    mend="Add a readinessProbe that succeeds once the container can be used.",
)
def no_readiness(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for each in scene.of_pool(pool):
        names = [c.text("name") for c in each.pod.items("containers") if not c.section("readinessProbe").fields]
        if names:
            yield f"{each}: {', '.join(names[:5])}"


@POOLS.rule(
    "WL734",
    "ends-by-itself",
    Severity.WARNING,
    happens="With this restartPolicy, or with activeDeadlineSeconds, a pod ends by itself, whether idle or claimed. "
    "With mode: recycle, a container whose image changes is not started again.",
    mend="Use restartPolicy: Always, and no activeDeadlineSeconds: the lease limits a claim.",
)
def ends_by_itself(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for each in scene.of_pool(pool):
        policy, deadline = each.pod.text("restartPolicy") or "Always", each.pod.number("activeDeadlineSeconds")
        if policy != "Always" or deadline is not None:
            yield f"{each}: " + (
                f"restartPolicy is {policy}" if policy != "Always" else f"it ends after {deadline:g} s"
            )


@POOLS.rule(
    "WL735",
    "service-loses-them",
    Severity.INFO,
    happens="A Service selects pods by a label that a claim removes, so it does not route to claimed pods. That is "
    "usually intended: callers use the addresses in the claim's answer.",
    mend="If the Service must route to claimed pods, select by a label that they keep.",
)
def service_loses_them(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode != "detach":
        return
    for service in scene.of("Service", pool.namespace):
        selector = texts(service.section("spec").section("selector"))
        if set(selector) & set(pool.selector) and _selects_pods(scene, pool, selector):
            yield f"Service {name_of(service)}"


# -- rights -------------------------------------------------------------------------------------------------------


@POOLS.rule(
    "WL741",
    "rights-missing",
    Severity.ERROR,
    happens="Waggle lacks rights in the pool's namespace: it cannot list the pods, or its write is refused and the "
    "caller gets 502 WriteRefused.",
    mend="Run kubectl -n NAMESPACE apply -f manifests/claims/pool-namespace.yaml.",
    needs="cluster",
)
def rights_missing(scene: Scene, pool: LintedPool) -> Iterator[str]:
    missing = (scene.missing_rights or {}).get(pool.namespace)
    if missing:
        yield f"may not {', '.join(missing)}"


def _unreadable(scene: Scene) -> str:
    return " ".join(scene.unread).replace("validatingadmissionpolicies", "ValidatingAdmissionPolicy")


def _selects_pods(scene: Scene, pool: LintedPool, labels: Mapping[str, str]) -> bool:
    """Whether pods of the pool have all these labels."""
    return any(labels.items() <= each.pod_labels.items() for each in scene.of_pool(pool))


def _replicas(workload: Workload) -> float | None:
    """Return the replicas in its spec; None if its kind has none."""
    if workload.kind not in ("Deployment", "ReplicaSet", "StatefulSet"):
        return None
    found = workload.object.section("spec").number("replicas")
    return 1.0 if found is None else found


def _text(pool: LintedPool) -> str:
    return ", ".join(f"{name}={value}" for name, value in pool.selector.items())
