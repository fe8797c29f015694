"""Tells `fgd` which pods to expect: those of the workload, as in its paper, unless its settings name typical pods.

Live, without settings, it expects pods such as there are at the moment, and weighs all nodes anew when these change.
That costs some ten times as much for each pod, and a simulation knows its workload.
"""

from __future__ import annotations

from collections import Counter

import yaml

from extender.lab.translate import need_of
from extender.lab.workload import Workload
from extender.settings import parse_yaml

FGD = "fgd"
#: Classes of pods that it expects, the most frequent ones: each costs time for each node that changes.
_MOST_CLASSES = 1000
REMARK = "it was told to expect the pods of the workload, since its settings name no typical pods"


def with_expected(settings: str, workload: Workload) -> str:
    """Return settings of fgd that name typical pods. The same text if they do, or if the jobs are recorded ones."""
    document = (parse_yaml(settings) if settings.strip() else None) or {}
    chosen = document.get("algorithm") if isinstance(document, dict) else None
    own = chosen.get("settings") if isinstance(chosen, dict) else None
    if isinstance(own, dict) and own.get("typical"):
        return settings
    if not isinstance(document, dict) or not workload.jobs or any(job.templates for job in workload.jobs):
        return settings
    document["algorithm"] = {"name": FGD, **(chosen or {})}
    document["algorithm"]["settings"] = {**(own or {}), "typical": _typical(workload)}
    return yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)


def _typical(workload: Workload) -> list[dict[str, object]]:
    """The classes of the workload's pods with their numbers, the most frequent first."""
    counts: Counter[tuple[int, int, int, str]] = Counter()
    for job in workload.jobs:
        need = need_of(job)
        counts[need.cpu, need.milli, need.gpus, need.spec] += job.pods
    return [
        {"cpu_milli": cpu, "gpu_milli": milli, "gpus": gpus, "models": spec, "count": count}
        for (cpu, milli, gpus, spec), count in counts.most_common(_MOST_CLASSES)
    ]
