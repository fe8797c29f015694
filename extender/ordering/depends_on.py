"""Reads `dependsOn` of JobSets and of Volcano's Jobs as they stand.

    JobSet         spec.replicatedJobs[].dependsOn: [{name: NAME, status: Ready | Complete}]
    Volcano Job    spec.tasks[].dependsOn: {name: [NAME, ...], iteration: any | all}

What they mean here, and what is different in their controllers: a Job that failed is not ready (JobSet counts it), a
task that has completed counts however long ago that was (Volcano looks at running pods only), and any acyclic order is
accepted (JobSet: only earlier replicatedJobs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.ordering.after import MOST_DEPENDENCIES, AfterError
from extender.ordering.records import REPLICATED_JOB, VOLCANO_TASK, Dependency, State, Target

#: How many replicatedJobs or tasks of one object are read.
MOST_PARTS = 1_000
_STATUSES = {"Ready": State.READY, "Complete": State.COMPLETE}


def depends_on(obj: Mapping[str, Any]) -> dict[Target, tuple[Dependency, ...]]:
    """Return the dependencies of each part of a JobSet or a Volcano Job; parts without any are left out.

    A part is `Target(REPLICATED_JOB or VOLCANO_TASK, NAMESPACE, "OBJECT/PART")`. Other kinds have none. Raises
    AfterError, which names the field.
    """
    version, kind = str(obj.get("apiVersion", "")), obj.get("kind")
    if kind == "JobSet" and version.startswith("jobset.x-k8s.io/"):
        return _of_job_set(obj)
    if kind == "Job" and version.startswith("batch.volcano.sh/"):
        return _of_volcano_job(obj)
    return {}


def part_name(obj: str, part: str) -> str:
    """Return the name of the target that is a part of an object."""
    return f"{obj}/{part}"


def _of_job_set(obj: Mapping[str, Any]) -> dict[Target, tuple[Dependency, ...]]:
    found = {}
    items, names = _parts(obj, "replicatedJobs")
    for index, item in enumerate(items):
        where = f"spec.replicatedJobs[{index}].dependsOn"
        entries = _list(item.get("dependsOn"), where)
        if entries:
            found[_part(obj, REPLICATED_JOB, item["name"])] = tuple(
                _of_entry(obj, entry, names, item["name"], f"{where}[{place}]") for place, entry in enumerate(entries)
            )
    return found


def _of_entry(obj: Mapping[str, Any], entry: Any, names: set[str], own: str, where: str) -> Dependency:
    if not isinstance(entry, Mapping):
        raise AfterError(f"{where}: expected an object with name and status")
    name = _known(entry.get("name"), names, own, f"{where}.name")
    status = entry.get("status")
    if status not in _STATUSES:
        raise AfterError(f"{where}.status: expected Ready or Complete, got {str(status)[:40]!r}")
    return Dependency(_part(obj, REPLICATED_JOB, name), _STATUSES[status])


def _of_volcano_job(obj: Mapping[str, Any]) -> dict[Target, tuple[Dependency, ...]]:
    found = {}
    items, names = _parts(obj, "tasks")
    for index, item in enumerate(items):
        where = f"spec.tasks[{index}].dependsOn"
        declared = item.get("dependsOn")
        if declared is None:
            continue
        if not isinstance(declared, Mapping):
            raise AfterError(f"{where}: expected an object with a list of names")
        either = where if declared.get("iteration") == "any" else ""
        wanted = [
            _known(name, names, item["name"], f"{where}.name[{place}]")
            for place, name in enumerate(_list(declared.get("name"), f"{where}.name"))
        ]
        if wanted:
            found[_part(obj, VOLCANO_TASK, item["name"])] = tuple(
                Dependency(_part(obj, VOLCANO_TASK, name), State.READY, either=either) for name in wanted
            )
    return found


def _parts(obj: Mapping[str, Any], field: str) -> tuple[list[Mapping[str, Any]], set[str]]:
    """Return the parts, and their names."""
    spec = obj.get("spec")
    items = _list(spec.get(field) if isinstance(spec, Mapping) else None, f"spec.{field}", MOST_PARTS)
    for index, item in enumerate(items):
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            raise AfterError(f"spec.{field}[{index}].name: expected a name")
    return items, {item["name"] for item in items}


def _list(value: Any, where: str, most: int = MOST_DEPENDENCIES) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise AfterError(f"{where}: expected a list")
    if len(value) > most:
        raise AfterError(f"{where}: expected at most {most} entries, got {len(value)}")
    return value


def _known(name: Any, names: set[str], own: str, where: str) -> str:
    if not isinstance(name, str) or name not in names:
        raise AfterError(f"{where}: expected the name of another part of the object, got {str(name)[:60]!r}")
    if name == own:
        raise AfterError(f"{where}: {name} would wait for itself")
    return name


def _part(obj: Mapping[str, Any], kind: str, name: str) -> Target:
    metadata = obj.get("metadata")
    meta = metadata if isinstance(metadata, Mapping) else {}
    return Target(kind, str(meta.get("namespace") or "default"), part_name(str(meta.get("name") or ""), name))
