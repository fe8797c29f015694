"""Short ways to make nodes and pods with GPUs, and a naive oracle of what `fgd` measures and chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp

from algorithm.fgd.fragmentation import PodClass
from algorithm.model import Node, Pod, pairs

GPU, MODEL_LABEL = "nvidia.com/gpu", "nvidia.com/gpu.product"


def node(name: str, *, gpus: int = 2, cpu: int = 8000, model: str = "A", **more: object) -> Node:
    amounts = {"cpu": cpu, "memory": 1 << 30, "pods": 10, GPU: gpus}
    return Node(name=name, allocatable=tuple(sorted(amounts.items())), labels=pairs({MODEL_LABEL: model}), **more)


def pod(name: str, *, milli: int = 0, gpus: int = 0, cpu: int = 1000, model: str = "", **more: object) -> Pod:
    """A pod with a part of a GPU (`milli`), or with whole ones (`gpus`), or without any."""
    amounts = {"cpu": cpu} | ({GPU: gpus} if gpus else {})
    declared = ({"waggle.dev/gpu-milli": str(milli)} if milli else {}) | (
        {"waggle.dev/gpu-model": model} if model else {}
    )
    return Pod(
        namespace="n",
        name=name,
        uid=f"u-{name}",
        requests=tuple(sorted(amounts.items())),
        annotations=pairs(declared),
        **more,
    )


def naive_fragmentation(shares: Mapping[PodClass, float], model: str, cpu: int, free: Iterable[int]) -> float:
    """The thousandths that typical pods cannot use, straight from the paper's definition."""
    gpus, total = list(free), 0.0
    for pods, share in shares.items():
        fits_model = not pods.spec or model in pods.spec.split("|")
        enough = [left for left in gpus if left >= pods.milli]
        is_usable = pods.gpus > 0 and fits_model and len(enough) >= pods.gpus and cpu >= pods.cpu
        total += share * (sum(gpus) - (sum(enough) if is_usable else 0))
    return total


def naive_score(before: float, after: float) -> float:
    """The paper's sigmoid of how much the fragmentation falls, 0 to 100."""
    return 100 / (1 + exp((after - before) / 1000))
