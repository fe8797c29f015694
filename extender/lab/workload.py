"""The input of a simulation: jobs that arrive, nodes that they run on, and nodes that fail.

Importers of traces and the generator make a `Workload`; the simulator runs it under any algorithm. A job says what it
needs independently of any algorithm: the simulator translates that into the annotations and resources that its
algorithm reads.

Times are seconds from the beginning of the trace. Names are unique in their kind. docs/simulate.md has a table of all
fields; a test holds it against these classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from algorithm.model import Node, Pod

#: The resource of GPUs, in thousandths of one GPU.
GPU = "gpu"
#: The resource of processors, in thousandths of one core.
CPU = "cpu"
#: The resource of memory, in bytes.
MEMORY = "memory"
#: Characters of the name of a job or a node.
LONGEST_NAME = 240


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`pods` pods that are alike. With `gang` they start together or not at all.

    `requests` is what one pod needs, by resource: CPU and GPU in thousandths, MEMORY in bytes, any other resource in
    its own units. GPUs of 1,000 or more are whole ones; fewer are a part of one. `seconds` is how long the job runs
    from the moment when it has all of its pods (without `gang`: each pod from its own start); None: it runs for ever.
    """

    name: str
    arrival: float
    requests: Mapping[str, int]
    seconds: float | None = None
    pods: int = 1
    gang: bool = False
    priority: int = 0
    tenant: str = ""
    #: Models of GPUs of which a node must have one; empty: any.
    gpu_models: tuple[str, ...] = ()
    #: The real records of its pods, for replays: one for each pod, or one for all of them. A simulated pod has its
    #: labels, annotations, requests and namespace as they are; nothing is translated, whatever the algorithm. A record
    #: with a node, of a job that is there at 0, runs on that node when the simulation begins.
    templates: tuple[Pod, ...] = ()
    #: Whether a controller makes its pods again that were evicted or lost their nodes. A gang without one is over then.
    again: bool = True
    #: Nodes that its pods can not go to.
    excluded: tuple[str, ...] = ()
    #: Seconds after its arrival at which its pods are deleted if none has had a place by then; None: never.
    patience: float | None = None

    @property
    def begins_placed(self) -> bool:
        """Whether pods of it run when the simulation begins."""
        return self.arrival == 0 and any(pod.node_name for pod in self.templates)

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs that all of its pods need together."""
        return self.requests.get(GPU, 0) * self.pods


class MachineNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node, with its capacity in the units of `Job.requests`, and the labels that an algorithm may read."""

    name: str
    capacity: Mapping[str, int]
    gpu_model: str = ""
    labels: Mapping[str, str] = {}
    #: The real record, for replays: it is used as it is.
    record: Node | None = None


class NodeFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that is gone from `at` until `until`, with all that runs there; None: for good."""

    node: str
    at: float
    until: float | None = None


class NodeChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node has another record from `at` on: it is cordoned, say. Its resources are the same."""

    at: float
    record: Node


class Workload(msgspec.Struct, frozen=True):
    """All that happens to a simulated cluster from outside. Jobs are in order of arrival, failures and changes
    of `at`."""

    name: str
    jobs: tuple[Job, ...]
    nodes: tuple[MachineNode, ...] = ()
    failures: tuple[NodeFailure, ...] = ()
    #: What an importer left out or assumed, a sentence each.
    remarks: tuple[str, ...] = ()
    changes: tuple[NodeChange, ...] = ()
