"""A cluster that HiveD divides, behind the real runtime and face: what the web page is tried with.

The API server's part is small: every binding is reported as written and then seen, nobody is ever evicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import yaml

from algorithm.hived import HivedAlgorithm, HivedSettings
from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import BindFinished, Command, WriteBinding
from extender.scheduling.events import Candidate, NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.runtime import Runtime
from extender.settings import AlgorithmSettings, ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread

SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"


class Scene:
    """`place` asks for pods as kube-scheduler would, and binds them where they may go."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self.algorithm = HivedAlgorithm(HivedSettings.model_validate(configuration))
        self._asked: dict[str, Pod] = {}
        self.machine = SchedulerStateMachine(self.algorithm)
        self.runtime = Runtime(self.machine, self._carry_out)
        self.machines = tuple(self.algorithm.hive.layout.machines)
        self.runtime.start()
        self.health(self.machines)
        self.runtime.handle(Synced())

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, WriteBinding):
            pod = self._asked[command.uid]
            annotations = (*pod.annotations, *command.annotations)
            bound = msgspec.structs.replace(pod, node_name=command.node, annotations=annotations)
            self.runtime.handle(BindFinished(command.token, Outcome(OutcomeKind.DONE)), PodSeen(bound))

    def health(self, machines: Iterable[str], *, ready: bool = True) -> None:
        self.runtime.handle(*[NodeSeen(Node(name=name, uid=name, ready=ready)) for name in machines])

    def place(
        self, group: str, tenant: str, priority: int, *, devices: int, pods: int = 1, preempt: bool = False, **more: Any
    ) -> list[str]:
        """A gang of `pods` that want `devices` each. The nodes of those that were placed."""
        found = []
        for number in range(pods):
            wish = {
                "virtualCluster": tenant,
                "priority": priority,
                "leafCellNumber": devices,
                "affinityGroup": {"name": group, "members": [{"podNumber": pods, "leafCellNumber": devices}]},
                **more,
            }
            text = yaml.safe_dump(wish)
            name = f"{group.rpartition('/')[2]}-{number}"
            uid = f"{group}-{number}"
            pod = Pod(namespace="ml", name=name, uid=uid, priority=priority, annotations=((SPEC, text),))
            found += self._ask(pod, preempt=preempt)
        return found

    def _ask(self, pod: Pod, *, preempt: bool) -> list[str]:
        self._asked[pod.uid] = pod
        self.runtime.handle(PodSeen(pod))
        node = self.runtime.filter(pod, SuggestedNodes(self.machines)).node
        if node:
            self.runtime.bind(pod.namespace, pod.name, pod.uid, node)
        elif preempt:
            self.runtime.preempt(pod, tuple(Candidate(name) for name in self.machines))
        return [node] if node else []

    def end(self, group: str, number: int = 0) -> None:
        self.runtime.handle(PodGone("ml", f"{group.rpartition('/')[2]}-{number}", f"{group}-{number}"))


def racks(number: int, machines: int, tenants: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Racks of machines with two sockets of four devices each."""
    types = {
        "socket": {"childCellType": "gpu", "childCellNumber": 4},
        "host": {"childCellType": "socket", "childCellNumber": 2, "isNodeLevel": True},
        "rack": {"childCellType": "host", "childCellNumber": machines},
    }
    cells = [
        {
            "cellType": "rack",
            "cellAddress": f"rack-{rack:03}",
            "cellChildren": [{"cellAddress": f"n{rack:03}-{host:02}"} for host in range(machines)],
        }
        for rack in range(number)
    ]
    promised = {name: {"virtualCells": virtual} for name, virtual in tenants.items()}
    return {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": promised}


def small() -> dict[str, Any]:
    """Four racks of four machines for three tenants, one of them with a pinned machine."""
    found = racks(
        4,
        4,
        {
            "vision": [{"cellType": "rack", "cellNumber": 1}, {"cellType": "rack.host", "cellNumber": 2}],
            "speech": [{"cellType": "rack.host", "cellNumber": 4}],
            "search": [{"cellType": "rack.host.socket", "cellNumber": 4}],
        },
    )
    found["physicalCluster"]["physicalCells"][3]["cellChildren"][3]["pinnedCellId"] = "searches-own"
    found["virtualClusters"]["search"]["pinnedCells"] = [{"pinnedCellId": "searches-own"}]
    return found


@contextmanager
def served(scene: Scene) -> Iterator[str]:
    """Its URL while the face is up; the engine is validated at the end."""
    settings = Settings(server=ServerSettings(port=0), algorithm=AlgorithmSettings(name="hived"))
    try:
        with serve_in_thread(create_app(scene.runtime, settings), settings) as server:
            yield server.url
    finally:
        scene.runtime.stop()
    scene.machine.validate()
