"""What a pod asks for, as read from its record and its annotations; which devices a binding gave it.

    waggle.dev/gpu-milli: "250"      thousandths of a GPU. Less than 1000: a part of one GPU
    waggle.dev/gpu-count: "2"        whole GPUs, for pods that do not ask for them as a resource
    waggle.dev/gpu-model: "A100|H100"    one of these models; absent: any
    waggle.dev/gpu-index: "0,3"      written with the binding: the indexes of the GPUs

A pod that asks for the resource of whole GPUs (`nvidia.com/gpu`) needs no annotation.
"""

from __future__ import annotations

from typing import NamedTuple

from algorithm.interface import PodRefused
from algorithm.model import CPU, MEMORY, Pod
from algorithm.reasons import Code, reason

MILLI = "waggle.dev/gpu-milli"
COUNT = "waggle.dev/gpu-count"
MODEL = "waggle.dev/gpu-model"
INDEX = "waggle.dev/gpu-index"
#: Thousandths of a whole GPU.
WHOLE = 1000
#: Longest annotation that is read, characters.
LONGEST = 4096
_MOST_GPUS = 1000


class Need(NamedTuple):
    """What one pod takes: `cpu` in thousandths of a core, `memory` in bytes, `milli` thousandths of each of its
    `gpus` GPUs. Pods with equal needs are interchangeable."""

    cpu: int
    memory: int
    milli: int = 0
    gpus: int = 0
    #: The models as they are written: part of the pod's class.
    spec: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether it needs a part of one GPU."""
        return 0 < self.milli < WHOLE

    @property
    def models(self) -> frozenset[str]:
        """The models that it can use; empty: any."""
        return frozenset(filter(None, self.spec.split("|")))

    @property
    def all_milli(self) -> int:
        return self.milli * self.gpus


def need_of(pod: Pod, resource: str) -> Need:
    """Return what the pod asks for. Raises PodRefused if an annotation is wrong, naming it."""
    amounts = dict(pod.requests)
    count = _number(pod, COUNT, _MOST_GPUS) or 0
    milli = _number(pod, MILLI, WHOLE)
    asked = amounts.get(resource, 0)
    if count and asked and count != asked:
        raise _refused(f"{COUNT} says {count}, and {asked} {resource} are requested; leave one out")
    gpus = count or asked
    if milli is None or milli == WHOLE:
        milli = WHOLE if gpus or milli else 0
        gpus = gpus or (1 if milli else 0)
    elif milli and gpus > 1:
        raise _refused(f"{MILLI}: a part of a GPU is a part of one GPU, and {gpus} are requested")
    elif milli:
        gpus = 1
    elif gpus:
        raise _refused(f"{MILLI}: expected 1 to {WHOLE} for a pod that requests GPUs, got 0")
    spec = (pod.annotation(MODEL) or "") if gpus else ""
    if len(spec) > LONGEST:
        raise _refused(f"{MODEL}: longer than {LONGEST} characters")
    return Need(amounts.get(CPU, 0), amounts.get(MEMORY, 0), milli, gpus, spec)


def _number(pod: Pod, name: str, most: int) -> int | None:
    text = pod.annotation(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > most:
        raise _refused(f"{name}: expected a whole number from 0 to {most}, got {text[:50]!r}")
    return int(text)


def _refused(detail: str) -> PodRefused:
    return PodRefused(reason(Code.POD_INVALID, detail=detail))


def need_or_plain(pod: Pod, resource: str) -> Need:
    """What a pod takes that runs already: one with wrong annotations takes what it requests."""
    try:
        return need_of(pod, resource)
    except PodRefused:
        amounts = dict(pod.requests)
        gpus = amounts.get(resource, 0)
        return Need(amounts.get(CPU, 0), amounts.get(MEMORY, 0), WHOLE if gpus else 0, gpus)


def indexes_of(pod: Pod, need: Need) -> tuple[int, ...] | None:
    """The devices that the pod's binding names; None if it names none, or others than it needs."""
    text = pod.annotation(INDEX)
    if not text or len(text) > LONGEST:
        return () if not need.gpus else None
    parts = text.split(",")
    if len(parts) != need.gpus or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        return None
    found = tuple(int(part) for part in parts)
    return found if len(set(found)) == len(found) else None
