"""Random states with what-if options: other settings, another algorithm, other priorities, and what is deleted,
cordoned or added. Live, the change is really made: the server is started again, objects are deleted, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import yaml

from extender.ordering.records import GROUP
from extender.scheduling.reads import GANG_ANNOTATION
from tests.conformance.plan_truth.hived_states import hived_state
from tests.conformance.plan_truth.states import State, packing_state
from tests.conformance.plan_truth.workload_states import workload_state
from tests.support.hived.scene import racks

_MODES = ("kube-scheduler", "direct", "auto")
#: Priorities that no pod has before.
_PRIORITIES = (2000, 3000, 1)


def what_if_state(seed: int) -> State:
    """One of the other states, with one or two what-if options more."""
    some = Random(seed)
    make: Callable[[int], State] = some.choice((packing_state, workload_state, workload_state, hived_state))
    state = make(seed)
    options = (_new_settings, _new_algorithm, _priorities, _delete, _cordon)
    for option in some.sample(options, some.choice((1, 1, 2))):
        option(state, some)
    if state.new_settings is not None and state.new_algorithm is not None:
        state.new_algorithm = None
    order = ("delete", "delete-gang", "delete-workload", "delete-node", "cordon", "drain")
    state.steps = sorted(set(state.steps), key=lambda step: (order.index(step[0]), step[1]))
    return state


def _new_settings(state: State, some: Random) -> None:
    """Another mode of preemption, and other settings of the same or of another algorithm."""
    old: dict[str, Any] = yaml.safe_load(state.settings)
    name = old["algorithm"]["name"]
    if name == "hived":
        algorithm = {"name": name, "settings": _other_promises(some)}
    else:
        algorithm = some.choice((
            {"name": "packing", "settings": {"strategy": "spread"}},
            {"name": "packing", "settings": {"strategy": "pack"}},
            {"name": "fgd"},
        ))  # fmt: skip
    state.new_settings = yaml.safe_dump({"algorithm": algorithm, "preemption": {"mode": some.choice(_MODES)}})


def _other_promises(some: Random) -> dict[str, Any]:
    """The same racks, promised to the same tenants in other shares."""
    vision, speech = some.choice((
        (("rack.host", 2), ("rack", 1)),
        (("rack.host", 1), ("rack.host", 4)),
        (("rack", 2), None),
    ))  # fmt: skip
    return racks(2, 3, {"vision": _promise(vision), "speech": _promise(speech)})


def _promise(cells: tuple[str, int] | None) -> list[dict[str, Any]]:
    return [] if cells is None else [{"cellType": cells[0], "cellNumber": cells[1]}]


def _new_algorithm(state: State, some: Random) -> None:
    name = yaml.safe_load(state.settings)["algorithm"]["name"]
    state.new_algorithm = some.choice([each for each in ("packing", "fgd") if each != name])


def _priorities(state: State, some: Random) -> None:
    """Of one pod, gang or ReplicaSet, old or new."""
    pods = [each for each in (*state.bound, *state.waiting, *state.create) if each["kind"] == "Pod"]
    # A pod of another priority class gets the preemption policy of that class, too, and a plan changes no policy.
    pods = [each for each in pods if "preemptionPolicy" not in each["spec"]]
    sets = [each for each in (*state.objects, *state.create) if each["kind"] == "ReplicaSet"]
    chosen = some.choice([*pods, *sets]) if pods or sets else None
    if chosen is None:
        return
    gang = chosen["metadata"].get("annotations", {}).get(GANG_ANNOTATION) if chosen["kind"] == "Pod" else None
    kind, name = (GROUP, gang) if gang else (chosen["kind"], chosen["metadata"]["name"])
    if (kind, name) not in {(_KINDS.get(verb), gone) for verb, gone in state.steps}:
        state.priorities.append((kind, name, some.choice(_PRIORITIES)))


#: What the verbs of steps delete.
_KINDS = {"delete": "Pod", "delete-gang": GROUP, "delete-workload": "ReplicaSet"}


def _delete(state: State, some: Random) -> None:
    """A pod, a gang that waits, a workload or a node."""
    gangs = [pod["metadata"].get("annotations", {}).get(GANG_ANNOTATION) for pod in (*state.bound, *state.waiting)]
    owners = [each for each in state.objects if each["kind"] in ("ReplicaSet", "StatefulSet")]
    used = {name for _, name in state.steps} | {name for _, name, _ in state.priorities}
    found = [
        *(("delete", pod["metadata"]["name"]) for pod in (*state.bound, *state.waiting)),
        *(("delete-gang", gang) for gang in gangs if gang),
        *(("delete-workload", each["metadata"]["name"]) for each in owners),
        *(("delete-node", each["metadata"]["name"]) for each in state.nodes[1:]),
    ]
    left = [step for step in found if step[1] not in used]
    if left:
        state.steps.append(some.choice(left))


def _cordon(state: State, some: Random) -> None:
    used = {name for _, name in state.steps}
    left = [name for each in state.nodes if (name := each["metadata"]["name"]) not in used]
    if left:
        state.steps.append(("cordon", some.choice(left)))
