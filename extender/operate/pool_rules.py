"""The rules of `waggle lint pool`: what makes a pool give pods away wrongly, or not at all.

Each rule has an example, tests/fixtures/lint-pools/CODE.yaml, that docs/pool-lint.md shows and that a test lints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from extender.claims.writes.names import CLAIM_ANNOTATION, PHASE_LABEL
from extender.operate.pool_scene import LintedPool, Scene, Workload, name_of, selector_of, texts
from extender.operate.rules import Severity

DOCS = "docs/pool-lint.md"
_REPLICASET_CONTROLLER = "kube-system:replicaset-controller"
Check = Callable[[Scene, LintedPool], Iterable[str]]
CheckAll = Callable[[Scene], Iterable[str]]


@dataclass(frozen=True)
class PoolRule:
    """One trap. `check` yields what is wrong with a pool, `check_all` with the whole; one of them is there.

    `needs`: objects (of a file or a cluster), or cluster (asked for rights).
    """

    code: str
    name: str
    severity: Severity
    happens: str
    mend: str
    check: Check | None = None
    check_all: CheckAll | None = None
    needs: str = "objects"

    @property
    def docs(self) -> str:
        """Where it is explained."""
        return f"{DOCS}#{self.code.lower()}-{self.name}"


POOL_RULES: dict[str, PoolRule] = {}


def _rule(
    code: str, name: str, severity: Severity, *, happens: str, mend: str, needs: str = "objects"
) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        POOL_RULES[code] = PoolRule(code, name, severity, happens, mend, check=check, needs=needs)
        return check

    return register


def _rule_of_all(
    code: str, name: str, severity: Severity, *, happens: str, mend: str, needs: str = "objects"
) -> Callable[[CheckAll], CheckAll]:
    def register(check: CheckAll) -> CheckAll:
        POOL_RULES[code] = PoolRule(code, name, severity, happens, mend, check_all=check, needs=needs)
        return check

    return register


# -- the configuration --------------------------------------------------------------------------------------------


@_rule_of_all(
    "WL701",
    "claims-off",
    Severity.ERROR,
    happens="The configuration has pools, and `claims.enabled` is false: nobody serves them, and every request gets "
    "404.",
    mend="claims.enabled: true.",
    needs="",
)
def claims_off(scene: Scene) -> Iterator[str]:
    if scene.settings is not None and scene.settings.claims.pools and not scene.settings.claims.enabled:
        yield "claims.enabled is false"


@_rule_of_all(
    "WL702",
    "everybody-claims",
    Severity.WARNING,
    happens="The server listens beyond the loopback, asks for no certificate, and `claims.authorization` is none: "
    "whoever reaches the port gets pods in the name of any tenant, and ends the claims of others.",
    mend="claims.authorization: kubernetes, or server.tls.client_ca_file.",
    needs="",
)
def everybody_claims(scene: Scene) -> Iterator[str]:
    settings = scene.settings
    if settings is None or not settings.claims.enabled or settings.claims.authorization != "none":
        return
    tls = settings.server.tls
    if settings.server.host not in ("127.0.0.1", "::1", "localhost") and (tls is None or tls.client_ca_file is None):
        yield f"server.host is {settings.server.host}, claims.authorization is none"


@_rule_of_all(
    "WL703",
    "overlap",
    Severity.ERROR,
    happens="A pod can have the labels of both pools. Each gives it away on its own account: the queue of one is "
    "served with the pods of the other, and their limits and snapshots are wrong.",
    mend="A label that both selectors have, with different values.",
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


@_rule(
    "WL711",
    "nothing-selected",
    Severity.ERROR,
    happens="No workload of the namespace makes pods with these labels, and no pod has them: requests wait until their "
    "deadline. Labels of a Deployment itself do not count, those of its pod template do.",
    mend="Put the pool's labels into the template of the workload (spec.template.metadata.labels).",
)
def nothing_selected(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if scene.of_pool(pool):
        return
    meant = next((each for each in scene.workloads(pool.namespace) if pool.takes(each.labels)), None)
    yield f"only {meant} itself has its labels, its pods lack them" if meant else f"nothing has {_text(pool)}"


@_rule(
    "WL712",
    "several-workloads",
    Severity.WARNING,
    happens="Pods of several workloads are in the pool: a caller gets one of any of them, and one that nobody meant to "
    "give away may be taken out of its workload.",
    mend="A label in the selector that the pods of one workload have; two versions are two pools, or `requires` of a "
    "claim.",
)
def several_workloads(scene: Scene, pool: LintedPool) -> Iterator[str]:
    found = scene.of_pool(pool)
    if len(found) > 1:
        yield ", ".join(map(str, found[:5]))


# -- owners -------------------------------------------------------------------------------------------------------


@_rule(
    "WL721",
    "adopted-again",
    Severity.ERROR,
    happens="A claim takes the labels of the pool's selector off its pod. None of them is in the selector of the "
    "workload, so the claimed pod still is one of its ReplicaSet's, which adopts it again: nothing is refilled, and a "
    "scale-down or a roll-out deletes the claimed pod.",
    mend="Use a label of the workload's own selector (spec.selector.matchLabels) as the pool's selector. The selector "
    "of a Deployment cannot be changed: create it anew.",
)
def adopted_again(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode != "detach":
        return
    for each in scene.of_pool(pool):
        if each.kind in ("Deployment", "ReplicaSet") and not each.selected_by & set(pool.selector):
            yield f"{each} selects by {', '.join(sorted(each.selected_by)) or 'nothing'}"


@_rule(
    "WL722",
    "not-replaceable",
    Severity.ERROR,
    happens="Only a ReplicaSet makes another pod where one was taken out. A StatefulSet needs the name that the "
    "claimed pod keeps; a DaemonSet starts another one on the same node; a Job counts what it lost; and nobody "
    "replaces a pod that has no owner: the pool is empty after its last claim.",
    mend="A Deployment; or mode: recycle, where pods stay with their owner.",
)
def not_replaceable(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode == "detach":
        yield from (str(each) for each in scene.of_pool(pool) if each.kind not in ("Deployment", "ReplicaSet"))


@_rule(
    "WL723",
    "no-policy",
    Severity.WARNING,
    happens="The ReplicaSet controller deletes on a stale cache and without preconditions: of 479 pods that were "
    "claimed during a scale-down it killed 82. With the policy that comes with Waggle it was none of 480.",
    mend="Apply manifests/components/claims-guard (Kubernetes 1.30 or newer), and do not scale down while claims run "
    "without it.",
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
        yield "no ValidatingAdmissionPolicy keeps the ReplicaSet controller from claimed pods"


@_rule(
    "WL724",
    "shrinking",
    Severity.WARNING,
    happens="The workload has more pods than it should have, so its controller is deleting some now: pods that are "
    "offered end a moment later.",
    mend="Wait until it is done; apply manifests/components/claims-guard, so that none of them is one that was just "
    "claimed.",
)
def shrinking(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for each in scene.of_pool(pool):
        wanted, has = _replicas(each), each.object.section("status").number("replicas") or 0
        if wanted is not None and has > wanted:
            yield f"{each} has {has:g} of {wanted:g} pods"


@_rule(
    "WL725",
    "no-replicas",
    Severity.WARNING,
    happens="The workload has no replicas: the pool is empty, and requests wait until their deadline.",
    mend="Scale it to as many idle pods as you want to have in stock.",
)
def no_replicas(scene: Scene, pool: LintedPool) -> Iterator[str]:
    yield from (f"{each} has 0 replicas" for each in scene.of_pool(pool) if _replicas(each) == 0)


@_rule(
    "WL726",
    "autoscaled-by-use",
    Severity.WARNING,
    happens="A HorizontalPodAutoscaler scales the workload by the load of its pods. Idle pods have none, and claimed "
    "ones are not counted any more: it shrinks the pool while requests wait.",
    mend="Scale by waggle_pool_waiting_requests and waggle_pool_idle_pods (an external metric), or not at all.",
)
def autoscaled_by_use(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for scaler in scene.of("HorizontalPodAutoscaler", pool.namespace):
        target, metrics = scaler.section("spec").section("scaleTargetRef"), scaler.section("spec").items("metrics")
        if metrics and all(each.text("type") in ("External", "Object") for each in metrics):
            continue
        for each in scene.of_pool(pool):
            if (target.text("kind"), target.text("name")) == (each.kind, each.name):
                yield f"HorizontalPodAutoscaler {name_of(scaler)} scales {each}"


@_rule(
    "WL727",
    "budget-without-controller",
    Severity.WARNING,
    happens="A PodDisruptionBudget also selects the claimed pods, which have no controller any more. With a percentage "
    "or maxUnavailable it then allows no eviction at all: `kubectl drain` hangs on every node with a claimed pod.",
    mend="Select by a label of the pool's selector, which claimed pods lose; or give minAvailable as a number.",
)
def budget_without_controller(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode != "detach":
        return
    for budget in scene.of("PodDisruptionBudget", pool.namespace):
        spec = budget.section("spec")
        plain, keys = selector_of(spec.section("selector"))
        if isinstance(spec.fields.get("minAvailable"), int) or keys & set(pool.selector):
            continue
        if any(plain.items() <= each.pod_labels.items() for each in scene.of_pool(pool)):
            yield f"PodDisruptionBudget {name_of(budget)}"


# -- pods ---------------------------------------------------------------------------------------------------------


@_rule(
    "WL731",
    "no-phase",
    Severity.ERROR,
    happens="In a pool that recycles, the label waggle.dev/phase says whether a pod is idle. A pod without it cannot "
    "be told from one that somebody uses.",
    mend="waggle.dev/phase: idle in the labels of the pod template.",
)
def no_phase(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode == "recycle":
        for each in scene.of_pool(pool):
            if each.pod_labels.get(PHASE_LABEL) != "idle" and each.kind != "Pod":
                yield f"pods of {each} begin with {each.pod_labels.get(PHASE_LABEL) or 'no phase'}"


@_rule(
    "WL732",
    "phase-selected",
    Severity.ERROR,
    happens="The workload selects its pods by waggle.dev/phase, which a claim changes: the pod leaves its ReplicaSet, "
    "which makes another one, and is adopted again, as surplus, when it is idle: then one of them is deleted.",
    mend="A selector without it.",
)
def phase_selected(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode == "recycle":
        yield from (str(each) for each in scene.of_pool(pool) if PHASE_LABEL in each.selected_by)


@_rule(
    "WL733",
    "no-readiness",
    Severity.WARNING,
    happens="A container without a readiness probe counts as ready as soon as it runs: pods are given away before what "
    "is in them serves.",
    mend="A readinessProbe that passes when the container can be used.",
)
def no_readiness(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for each in scene.of_pool(pool):
        names = [c.text("name") for c in each.pod.items("containers") if not c.section("readinessProbe").fields]
        if names:
            yield f"{each}: {', '.join(names[:5])}"


@_rule(
    "WL734",
    "ends-by-itself",
    Severity.WARNING,
    happens="With this restartPolicy, or an activeDeadlineSeconds, pods end by themselves, idle or claimed; and in a "
    "pool that recycles, a change of the image does not start the container again.",
    mend="restartPolicy: Always, and no activeDeadlineSeconds: claims have leases.",
)
def ends_by_itself(scene: Scene, pool: LintedPool) -> Iterator[str]:
    for each in scene.of_pool(pool):
        policy, deadline = each.pod.text("restartPolicy") or "Always", each.pod.number("activeDeadlineSeconds")
        if policy != "Always" or deadline is not None:
            yield f"{each}: " + (
                f"restartPolicy is {policy}" if policy != "Always" else f"it ends after {deadline:g} s"
            )


@_rule(
    "WL735",
    "service-loses-them",
    Severity.INFO,
    happens="A Service selects pods by a label that a claim takes off: claimed pods are not behind it. Mostly that is "
    "as it should be; callers use the addresses that the claim names.",
    mend="If claimed pods have to be behind it, select by a label that they keep.",
)
def service_loses_them(scene: Scene, pool: LintedPool) -> Iterator[str]:
    if pool.mode != "detach":
        return
    for service in scene.of("Service", pool.namespace):
        selector = texts(service.section("spec").section("selector"))
        if set(selector) & set(pool.selector) and any(
            selector.items() <= each.pod_labels.items() for each in scene.of_pool(pool)
        ):
            yield f"Service {name_of(service)}"


# -- rights -------------------------------------------------------------------------------------------------------


@_rule(
    "WL741",
    "rights-missing",
    Severity.ERROR,
    happens="Waggle lacks rights in the pool's namespace: its pods are not known, or a claim's write is refused and "
    "its caller gets 502 WriteRefused.",
    mend="kubectl -n NAMESPACE apply -f manifests/claims/pool-namespace.yaml.",
    needs="cluster",
)
def rights_missing(scene: Scene, pool: LintedPool) -> Iterator[str]:
    missing = (scene.missing_rights or {}).get(pool.namespace)
    if missing:
        yield f"may not {', '.join(missing)}"


def _unreadable(scene: Scene) -> str:
    return " ".join(scene.unread).replace("validatingadmissionpolicies", "ValidatingAdmissionPolicy")


def _replicas(workload: Workload) -> float | None:
    """How many it should have; None if that is not for its spec to say."""
    if workload.kind not in ("Deployment", "ReplicaSet", "StatefulSet"):
        return None
    found = workload.object.section("spec").number("replicas")
    return 1.0 if found is None else found


def _text(pool: LintedPool) -> str:
    return ", ".join(f"{name}={value}" for name, value in pool.selector.items())
