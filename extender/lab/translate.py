"""Translates jobs and nodes into pods and nodes for one algorithm, as the author of a job would write them for it.

    algorithm   GPUs                              gangs                    models                     tenants
    fgd         nvidia.com/gpu; parts:            none: pods are placed    waggle.dev/gpu-model       namespace
                waggle.dev/gpu-milli              one by one
    hived       leafCellNumber                    affinity group           leafCellType, at most one  virtual cluster
    any other   nvidia.com/gpu; parts are         waggle.dev/gang and      node affinity              namespace
                rounded up                        waggle.dev/gang-min

An algorithm whose plug-in declares that it reads `waggle.dev/gpu-milli` gets the same pods as `fgd`.

A job with templates is not translated. Raises TranslationError for a job that cannot be expressed for the algorithm.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from algorithm.fgd.needs import MILLI, MODEL, WHOLE, Need
from algorithm.hived.formats.podspec import MAX_PRIORITY, OPPORTUNISTIC, SPEC
from algorithm.model import PODS, Node, Pod, pairs
from algorithm.packing.gangs import GANG, GANG_MIN, is_name
from algorithm.registry import AlgorithmError, reads
from extender.embedded.kubescheduler.model import NodeSelectorTerm, Requirement, SchedNode, SchedPod
from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode

#: The resource of whole GPUs, and the label with their model.
GPUS, MODEL_LABEL = "nvidia.com/gpu", "nvidia.com/gpu.product"
#: The namespace of jobs without a tenant.
NAMESPACE = "lab"
#: Pods that a node takes, if its capacity does not say.
_PODS_PER_NODE = 110


class TranslationError(ValueError):
    """A job cannot be expressed for the algorithm. The message names the job and the field."""


class Traits(NamedTuple):
    """What is known of an algorithm, so that fewer pods have to be tried in vain. What is not known is tried."""

    #: A pod that gets a place never makes room for another one, but for its own gang.
    binds_help_nobody: bool = False
    #: A pod that leaves a node helps nobody whom this node could not take even so.
    is_local: bool = False
    #: It treats all namespaces alike.
    ignores_tenants: bool = False


class _Wish(NamedTuple):
    """What a pod asks for beside processors and memory."""

    gpus: int = 0
    annotations: Mapping[str, str] = {}
    has_affinity: bool = False


class Translator:
    """Translates for one algorithm, and counts what it had to assume."""

    def __init__(self, algorithm: str) -> None:
        self._wish, self.traits = _ALGORITHMS.get(algorithm) or (_words_of(algorithm), Traits())
        self._has_parts = self._wish is _parts
        self._assumed: Counter[str] = Counter()
        self._resource_names: dict[tuple[str, ...], frozenset[str]] = {}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed, a sentence each."""
        return tuple(f"{text} ({number} {'job' if number == 1 else 'jobs'})" for text, number in self._assumed.items())

    def pods(self, job: Job) -> tuple[SchedPod, ...]:
        """Return the pods of a job, without UIDs: one record if all are alike but for their names."""
        if job.templates:
            keeps_place = job.begins_placed
            pods = (self._scheduled(_cleared(pod, keeps_place=keeps_place)) for pod in job.templates)
            return tuple(_constrained(pod, (), job.excluded) for pod in pods)
        wish = self._wish(job, self._assumed)
        amounts = {name: amount for name, amount in job.requests.items() if name != GPU and amount}
        if wish.gpus:
            amounts[GPUS] = wish.gpus
        pod = Pod(
            namespace=job.tenant or NAMESPACE,
            name=job.name,
            controlled=job.again,
            priority=job.priority,
            requests=tuple(sorted(amounts.items())),
            annotations=pairs(dict(wish.annotations)),
        )
        made = self._scheduled(pod)
        return (_constrained(made, job.gpu_models if wish.has_affinity else (), job.excluded),)

    def need(self, job: Job) -> Need:
        """Return what one pod of the job takes of a node: whole GPUs, where the algorithm knows no parts."""
        need = need_of(job)
        if job.templates or self._has_parts or not need.is_shared:
            return need
        return need._replace(milli=WHOLE)

    def kind(self, job: Job) -> Hashable | None:
        """Return the kind of the job's waiting pods: equal for jobs that differ only in their names and times. None:
        its pods are like no others."""
        if job.templates:
            alike = {_unnamed(pod) for pod in job.templates}
            return (alike.pop(), job.excluded) if len(alike) == 1 else None
        gang = job.pods if job.gang and job.pods > 1 else 0
        tenant = "" if self.traits.ignores_tenants else job.tenant
        return tenant, job.priority, gang, job.gpu_models, job.excluded, tuple(sorted(job.requests.items()))

    def _scheduled(self, pod: Pod) -> SchedPod:
        names = tuple(name for name, _ in pod.requests)
        kept = self._resource_names.setdefault(names, frozenset(names))
        return SchedPod(pod=pod, raw=b"", resource_names=kept)


def need_of(job: Job) -> Need:
    """Return what one pod of the job needs, independently of any algorithm."""
    milli = job.requests.get(GPU, 0)
    gpus = whole(milli)
    spec = "|".join(job.gpu_models) if gpus else ""
    return Need(job.requests.get(CPU, 0), job.requests.get(MEMORY, 0), min(milli, WHOLE), gpus, spec)


def whole(milli: int) -> int:
    """Return how many whole GPUs so many thousandths are, rounded up."""
    return -(-milli // WHOLE)


def node_of(machine: MachineNode) -> SchedNode:
    """Return the node as kube-scheduler sees it."""
    if machine.record is not None:
        return SchedNode(node=machine.record, raw=b"")
    amounts = {PODS: _PODS_PER_NODE} | {name: amount for name, amount in machine.capacity.items() if name != GPU}
    if machine.capacity.get(GPU):
        amounts[GPUS] = machine.capacity[GPU] // WHOLE
    labels = {"kubernetes.io/hostname": machine.name, **machine.labels}
    if machine.gpu_model:
        labels.setdefault(MODEL_LABEL, machine.gpu_model)
    return SchedNode(
        node=Node(name=machine.name, allocatable=tuple(sorted(amounts.items())), labels=pairs(labels)), raw=b""
    )


def _cleared(pod: Pod, *, keeps_place: bool) -> Pod:
    """A pod as its controller makes it, or as it runs already. The caller gives it a UID and a version."""
    running = keeps_place and bool(pod.node_name)
    return replace(
        pod,
        node_name=pod.node_name if running else "",
        nominated_node_name="",
        phase="Running" if running else "Pending",
        terminating=False,
        gated=False,
    )


def _unnamed(pod: Pod) -> Pod:
    """What a record says beside which pod it is."""
    cleared = _cleared(pod, keeps_place=False)
    return replace(cleared, name="", uid="", resource_version="", created="")


def _constrained(pod: SchedPod, models: tuple[str, ...], excluded: tuple[str, ...]) -> SchedPod:
    """The pod with a node affinity for these models, if there are any, and without these nodes."""
    if not models and not excluded:
        return pod
    labels = (Requirement(MODEL_LABEL, "In", models),) if models else ()
    names = (Requirement("metadata.name", "NotIn", excluded),) if excluded else ()
    return replace(pod, affinity=(NodeSelectorTerm(labels, names),))


def _whole_gpus(job: Job, assumed: Counter[str]) -> int:
    milli = job.requests.get(GPU, 0)
    if milli % WHOLE:
        assumed["a part of a GPU was rounded up to a whole one"] += 1
    return whole(milli)


def _common(job: Job, assumed: Counter[str]) -> _Wish:
    annotations = {GANG: _gang_of(job), GANG_MIN: str(job.pods)} if job.gang and job.pods > 1 else {}
    gpus = _whole_gpus(job, assumed)
    return _Wish(gpus, annotations, has_affinity=bool(gpus and job.gpu_models))


def _gang_of(job: Job) -> str:
    """The name of its gang: its own, or, where a gang must not have such a name, one made from it."""
    if is_name(job.name):
        return job.name
    return f"job-{hashlib.blake2b(job.name.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"


def _parts(job: Job, assumed: Counter[str]) -> _Wish:
    milli = job.requests.get(GPU, 0)
    annotations = {MODEL: "|".join(job.gpu_models)} if milli and job.gpu_models else {}
    if job.gang and job.pods > 1:
        assumed[
            "it has no gangs: pods are placed one by one, and hold their places until their job has all of them"
        ] += 1
    if 0 < milli < WHOLE:
        return _Wish(0, annotations | {MILLI: str(milli)})
    return _Wish(whole(milli), annotations)


def _hived(job: Job, assumed: Counter[str]) -> _Wish:
    where = f"job {job.name[:100]!r}"
    gpus = _whole_gpus(job, assumed)
    if not gpus:
        raise TranslationError(f"{where}: requests: {GPU}: hived places pods with GPUs only, and this one needs none")
    if not job.tenant:
        raise TranslationError(f"{where}: tenant: hived needs the name of a virtual cluster, and it is empty")
    if len(job.gpu_models) > 1:
        raise TranslationError(
            f"{where}: gpu_models: hived can ask for one type of device or any, not for {len(job.gpu_models)}"
        )
    priority = min(max(job.priority, OPPORTUNISTIC), MAX_PRIORITY)
    if priority != job.priority:
        assumed[f"a priority was cut to {OPPORTUNISTIC} (opportunistic) to {MAX_PRIORITY}"] += 1
    lines = [f"virtualCluster: {_quoted(job.tenant)}", f"priority: {priority}", f"leafCellNumber: {gpus}"]
    lines += [f"leafCellType: {_quoted(model)}" for model in job.gpu_models]
    lines.append("ignoreK8sSuggestedNodes: false")
    if job.gang and job.pods > 1:
        lines += ["affinityGroup:", f"  name: {_quoted(job.name)}", "  members:"]
        lines += [f"  - podNumber: {job.pods}", f"    leafCellNumber: {gpus}"]
    return _Wish(0, {SPEC: "\n".join(lines) + "\n"})


def _quoted(text: str) -> str:
    """The text in YAML, of which JSON is a part."""
    return json.dumps(text)


_Translate = Callable[[Job, "Counter[str]"], _Wish]
_ALGORITHMS: Mapping[str, tuple[_Translate, Traits]] = {
    "packing": (_common, Traits(binds_help_nobody=True, is_local=True, ignores_tenants=True)),
    "fgd": (_parts, Traits(binds_help_nobody=True, is_local=True, ignores_tenants=True)),
    "hived": (_hived, Traits(binds_help_nobody=True)),
}


def lacks_settings(algorithm: str) -> str:
    """Return why the algorithm cannot be simulated with its default settings; "" if it can."""
    if algorithm == "hived":  # without cells it places nothing
        return "hived needs settings of its own, with its cells: name a waggle.yaml by --settings"
    return ""


def _words_of(algorithm: str) -> _Translate:
    """The words for an algorithm that is none of ours, by the annotations that it says it reads."""
    try:
        wishes = reads(algorithm).wishes
    except AlgorithmError:  # whoever makes the algorithm says so
        wishes = None
    return _parts if wishes is not None and MILLI in wishes else _common
