"""Which pods a workload makes: how many, with which names, from which template, in which order.

| workload | names of its pods here | in a cluster |
|---|---|---|
| StatefulSet, Volcano Job | `NAME-0`, `NAME-TASK-0` | the same |
| Job, indexed; JobSet | `NAME-0`, `NAME-JOB-0-0` | with five random letters behind |
| Job, Deployment, ReplicaSet | `NAME-x1`, `NAME-x2` | with random letters in place of x1 |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from extender.embedded.apiserver.errors import bad_request
from extender.embedded.apiserver.objects import items, section, text
from extender.ordering.depends_on import part_name
from extender.ordering.records import REPLICATED_JOB, VOLCANO_JOB, VOLCANO_TASK, Target
from extender.plan.reading.kinds import JOBSET, VOLCANO, group_of

Object = dict[str, Any]

#: Pods of one workload; `Options.most_pods` bounds those of a plan.
MOST_PODS = 100_000
#: Parts (replicated jobs, tasks) of one workload.
_MOST_PARTS = 1000
#: Jobs of one part of a JobSet.
_MOST_JOBS = 10_000


class WorkloadFault(ValueError):  # noqa: N818 - a finding about somebody's file
    """The workload makes no pods that could be planned. The message names the field."""


class Naming(Enum):
    """How the controller names its pods."""

    #: The names are known beforehand.
    FIXED = auto()
    #: With an index, and random letters behind it.
    INDEXED = auto()
    #: With random letters only.
    RANDOM = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The pods that one controller makes from one template."""

    #: None: the pod itself stands in the manifest.
    owner: Target | None
    above: tuple[Target, ...] = ()
    namespace: str
    #: A pod without a name, and where it stands in the workload.
    template: Object
    path: str
    #: Their names begin so; the one at index 0 has the number `first`.
    base: str
    count: int
    first: int = 0
    naming: Naming = Naming.RANDOM
    #: Each waits until the one before it is ready.
    in_order: bool = False
    runs_to_end: bool = False
    #: Labels of all, and the labels whose value is the pod's index or name.
    labels: dict[str, str] = field(default_factory=dict)
    index_labels: tuple[str, ...] = ()
    name_labels: tuple[str, ...] = ()
    scheduler_name: str = ""
    #: Annotations of the workload and of the objects above, nearest first.
    annotations: tuple[dict[str, str], ...] = ()
    #: Seconds after which it is ended; 0: never.
    deadline: float = 0.0
    #: The part of a JobSet or of a Volcano Job that it is, "" for others.
    part: str = ""
    #: A Volcano Job is a gang by itself.
    gang: str = ""
    remarks: tuple[str, ...] = ()

    def name(self, index: int) -> str:
        """Return the name of the pod at this index, from 0."""
        if self.owner is None:
            return self.base
        return f"{self.base}-x{index + 1}" if self.naming is Naming.RANDOM else f"{self.base}-{self.first + index}"

    def first_pod(self) -> Object:
        """Return the pod at index 0, without defaults. The caller may change it at its top two levels."""
        given, spec = self.template.get("metadata", {}), dict(self.template.get("spec", {}))
        metadata = {**given, "namespace": self.namespace, "name": self.name(0)}
        if self.labels or self.index_labels or self.name_labels:
            metadata["labels"] = {**section(metadata, "labels", "metadata"), **self.labels_of(0)}
        if self.scheduler_name and not spec.get("schedulerName"):
            spec["schedulerName"] = self.scheduler_name
        return {"metadata": metadata, "spec": spec}

    def labels_of(self, index: int) -> dict[str, str]:
        """Return the labels that the controller gives the pod at this index."""
        numbered = dict.fromkeys(self.index_labels, str(self.first + index))
        return {**self.labels, **numbered, **dict.fromkeys(self.name_labels, self.name(index))}


def batches(obj: Object) -> list[Batch]:
    """Return the pods that an object makes, in the order of their creation.

    Raises WorkloadFault, or the embedded API server's ApiError, naming the field.
    """
    makers = {"Pod": _pod, "Deployment": _deployment, "StatefulSet": _stateful_set, "Job": _job, "JobSet": _job_set}
    metadata = obj["metadata"]
    target = Target(obj["kind"], metadata.get("namespace", "default"), metadata["name"])
    group = group_of(obj["apiVersion"])
    if group == VOLCANO:
        target = target._replace(kind=VOLCANO_JOB)
    make = _volcano_job if group == VOLCANO else makers.get(obj["kind"], _replica_set)
    spec = section(obj, "spec")
    return list(make(target, metadata, spec if obj["kind"] != "Pod" else obj))


def _pod(target: Target, metadata: Object, obj: Object) -> Iterator[Batch]:
    ends = text(section(obj, "spec"), "restartPolicy", "spec") in ("Never", "OnFailure")
    yield Batch(
        owner=None,
        namespace=target.namespace,
        template={"metadata": metadata, "spec": obj["spec"]},
        path="",
        base=target.name,
        count=1,
        runs_to_end=ends,
    )


def _replica_set(target: Target, metadata: Object, spec: Object) -> Iterator[Batch]:
    yield Batch(
        owner=target,
        namespace=target.namespace,
        template=section(spec, "template", "spec"),
        path="spec.template",
        base=target.name,
        count=_number(spec, "replicas", "spec", 1),
        annotations=(_annotations(metadata),),
    )


def _deployment(target: Target, metadata: Object, spec: Object) -> Iterator[Batch]:
    """Its pods belong to a ReplicaSet with a hash in its name, for which x stands here."""
    for batch in _replica_set(target, metadata, spec):
        owner = Target("ReplicaSet", target.namespace, f"{target.name}-x")
        yield replace(batch, owner=owner, above=(target,))


def _stateful_set(target: Target, metadata: Object, spec: Object) -> Iterator[Batch]:
    for batch in _replica_set(target, metadata, spec):
        yield replace(
            batch,
            naming=Naming.FIXED,
            first=_number(section(spec, "ordinals", "spec"), "start", "spec.ordinals", 0),
            in_order=text(spec, "podManagementPolicy", "spec") != "Parallel",
            index_labels=("apps.kubernetes.io/pod-index",),
            name_labels=("statefulset.kubernetes.io/pod-name",),
        )


def _job(
    target: Target, metadata: Object, spec: Object, path: str = "spec", mode: str = "NonIndexed"
) -> Iterator[Batch]:
    template = section(spec, "template", path)
    policy = text(section(template, "spec", f"{path}.template"), "restartPolicy", f"{path}.template.spec")
    if policy not in ("Never", "OnFailure"):
        raise WorkloadFault(
            f"{path}.template.spec.restartPolicy: expected OnFailure or Never (a Job's pods run to an end), "
            f"got {policy or 'nothing'}"
        )
    mode = text(spec, "completionMode", path) or mode
    if mode not in ("Indexed", "NonIndexed"):
        raise WorkloadFault(f"{path}.completionMode: expected Indexed or NonIndexed, got {mode[:100]}")
    at_once = _number(spec, "parallelism", path, 1)
    wanted = _number(spec, "completions", path, at_once if mode == "Indexed" or "parallelism" in spec else 1)
    count, remarks = min(at_once, wanted), []
    if _is_true(spec, "suspend", path):
        count, remarks = 0, ["is suspended: it makes no pods"]
    elif count < wanted:
        remarks = [f"makes {wanted} pods, {count} at a time: the plan shows the first {count}"]
    indexed = mode == "Indexed"
    yield Batch(
        owner=target,
        namespace=target.namespace,
        template=template,
        path=f"{path}.template",
        base=target.name,
        count=count,
        naming=Naming.INDEXED if indexed else Naming.RANDOM,
        runs_to_end=True,
        labels={"batch.kubernetes.io/job-name": target.name, "job-name": target.name},
        index_labels=("batch.kubernetes.io/job-completion-index",) if indexed else (),
        annotations=(_annotations(metadata),),
        deadline=float(_number(spec, "activeDeadlineSeconds", path, 0, most=2**31)),
        remarks=tuple(remarks),
    )


def _job_set(target: Target, metadata: Object, spec: Object) -> Iterator[Batch]:
    suspended = _is_true(spec, "suspend", "spec")
    for number, part in enumerate(_parts(spec, "replicatedJobs")):
        path = f"spec.replicatedJobs[{number}]"
        name, template = _part_name(part, path), section(part, "template", path)
        for index in range(_number(part, "replicas", path, 1, most=_MOST_JOBS)):
            job = Target("Job", target.namespace, f"{target.name}-{name}-{index}")
            inner = section(template, "spec", f"{path}.template")
            given = section(template, "metadata", f"{path}.template")
            for batch in _job(job, given, inner, f"{path}.template.spec", mode="Indexed"):
                yield replace(
                    batch,
                    above=(Target(REPLICATED_JOB, target.namespace, part_name(target.name, name)), target),
                    part=name,
                    count=0 if suspended else batch.count,
                    labels={**batch.labels, **_job_set_labels(target.name, name, index)},
                    annotations=(*batch.annotations, _annotations(metadata)),
                    remarks=("is suspended: it makes no pods",) if suspended else batch.remarks,
                )


def _job_set_labels(job_set: str, part: str, index: int) -> dict[str, str]:
    names = {"jobset-name": job_set, "replicatedjob-name": part, "job-index": str(index)}
    return {f"{JOBSET.removesuffix('.x-k8s.io')}.sigs.k8s.io/{key}": value for key, value in names.items()}


def _volcano_job(target: Target, metadata: Object, spec: Object) -> Iterator[Batch]:
    scheduler = text(spec, "schedulerName", "spec") or "volcano"
    for number, part in enumerate(_parts(spec, "tasks")):
        path = f"spec.tasks[{number}]"
        name = text(part, "name", path) or f"default{number}"
        yield Batch(
            owner=target,
            above=(Target(VOLCANO_TASK, target.namespace, part_name(target.name, name)),),
            namespace=target.namespace,
            template=section(part, "template", path),
            path=f"{path}.template",
            base=f"{target.name}-{name}",
            count=_number(part, "replicas", path, 1),
            naming=Naming.FIXED,
            runs_to_end=True,
            labels={"volcano.sh/job-name": target.name, "volcano.sh/task-spec": name},
            scheduler_name=scheduler,
            annotations=(_annotations(metadata),),
            part=name,
            gang=target.name,
        )


def _parts(spec: Object, key: str) -> list[Object]:
    parts = items(spec, key, "spec")
    if not parts:
        raise WorkloadFault(f"spec.{key}: expected at least one")
    if len(parts) > _MOST_PARTS:
        raise WorkloadFault(f"spec.{key}: expected at most {_MOST_PARTS}, got {len(parts)}")
    names = [each.get("name") for each in parts]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise WorkloadFault(f"spec.{key}[{number}].name: {name!r} appears twice")
    return parts


def _part_name(part: Object, path: str) -> str:
    name = text(part, "name", path)
    if not name:
        raise WorkloadFault(f"{path}.name: expected a name")
    return name


def _number(parent: Object, key: str, path: str, default: int, *, most: int = MOST_PODS) -> int:
    value = parent.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(f"{path}.{key} must be an integer, not {type(value).__name__}")
    if not 0 <= value <= most:
        raise WorkloadFault(f"{path}.{key}: expected 0 to {most}, got {value}")
    return value


def _is_true(parent: Object, key: str, path: str) -> bool:
    value = parent.get(key, False)
    if not isinstance(value, bool):
        raise bad_request(f"{path}.{key} must be true or false, not {type(value).__name__}")
    return value


def _annotations(metadata: Object) -> dict[str, str]:
    found = section(metadata, "annotations", "metadata")
    return {key: value for key, value in found.items() if isinstance(value, str)}
