"""The run: on one control plane, for each size of cluster all variants in turn, round after round; then the gangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.bench.e2e import gangs, throughput
from tests.bench.e2e.figures import Found, Throughput
from tests.bench.e2e.variants import GANGS, Stage, Variant, variants_for
from tests.e2e.cluster import ControlPlane


@dataclass(frozen=True)
class Scale:
    """How much is measured: `pods` in each of `rounds` for each of the sizes, and how many gangs, in `gang_nodes`."""

    sizes: tuple[int, ...]
    pods: int
    rounds: int
    gangs: int
    gang_nodes: int


FULL = Scale(sizes=(100, 1000), pods=600, rounds=5, gangs=10, gang_nodes=100)
QUICK = Scale(sizes=(20,), pods=40, rounds=1, gangs=1, gang_nodes=10)


class Bench:
    """A running control plane, measured from this process. `say` is told what is being done."""

    def __init__(self, plane: ControlPlane, programs: Mapping[str, Path], say: Callable[[str], None]) -> None:
        self._plane, self._programs, self._say = plane, programs, say
        self._pids = {process.name: process.pid for process in plane.processes}
        self._api = connect(ClusterSettings(kubeconfig=plane.kubeconfig("admin")))

    def close(self) -> None:
        self._api.close()

    def run(self, scale: Scale) -> Found:
        measured = [each for size in scale.sizes for each in self._throughput(size, scale)]
        self._say(f"gangs on {scale.gang_nodes:,} nodes")
        with self._cluster(scale.gang_nodes), self._stage(GANGS) as stage:
            seconds = gangs.measure(stage, self._api, scale.gang_nodes, scale.gangs)
        return Found(measured, seconds, scale.gang_nodes)

    def _throughput(self, size: int, scale: Scale) -> list[Throughput]:
        results = [Throughput(size, variant) for variant in variants_for(size, min(scale.sizes))]
        with self._cluster(size), ExitStack() as opened:
            stages = [opened.enter_context(self._stage(result.variant)) for result in results]
            for number in range(scale.rounds):
                for stage, result in zip(stages, results, strict=True):
                    shown = f"{stage.variant.configuration.name}, {stage.variant.name}"
                    self._say(f"{size:,} nodes, round {number + 1} of {scale.rounds}, {shown}")
                    pods = int(scale.pods * stage.variant.configuration.pods)
                    result.rounds.append(throughput.measure(stage, self._api, self._pids, pods))
        return results

    @contextmanager
    def _cluster(self, size: int) -> Iterator[None]:
        with self._plane.client() as client:
            try:
                throughput.make_nodes(client, size)
                yield
            finally:
                throughput.remove_nodes(client)

    @contextmanager
    def _stage(self, variant: Variant) -> Iterator[Stage]:
        stage = Stage(self._plane, self._programs, variant)
        try:
            yield stage
        finally:
            stage.close()
