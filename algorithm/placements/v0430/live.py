"""`v0.43.0` as a policy of a set: its decision for one vpod, made from the state that all policies read.

The original collects its state anew for every vreplica. Here it is collected once for a decision, and changed in place.
The original fills up pods that cannot be used, too; here they have no room.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from algorithm.placements.model import Counts, SetState, VPodState
from algorithm.placements.policy import Place
from algorithm.placements.v0430 import plugins
from algorithm.placements.v0430.plugins import PluginUse
from algorithm.placements.v0430.scheduler import PluginScheduler, Policy
from algorithm.placements.v0430.snapshot import Cluster, Committed, Snapshot

#: Looks at a pod that one decision may take, a tenth of a second. The original decides for each vreplica alone, and
#: looks at all pods for it: a vpod that wants a million would stop the decisions of all others.
MOST_LOOKS = 200_000
#: Predicates and priorities that look at one pod only.
_PLAIN = frozenset(
    {"PodFitsResources", "NoMaxResourceCount", "LowestOrdinalPriority", "RemoveWithHighestOrdinalPriority"}
)


class Use(BaseModel):
    """A predicate or a priority. `args`: an object, or the text of one, as the original has it."""

    model_config = ConfigDict(extra="forbid")

    name: str
    args: dict[str, Any] | str | None = None
    weight: int = Field(default=1, ge=0, le=1000)

    def use(self) -> PluginUse:
        args = json.dumps(self.args) if isinstance(self.args, dict) else self.args
        return PluginUse(self.name, args, self.weight)


class Direction(BaseModel):
    """How a pod is chosen."""

    model_config = ConfigDict(extra="forbid")

    predicates: list[Use] = Field(default=[], max_length=20)
    priorities: list[Use] = Field(default=[], max_length=20)

    def policy(self) -> Policy:
        return Policy([each.use() for each in self.predicates], [each.use() for each in self.priorities])


class V0430Settings(BaseModel):
    """Either it fills pods up, or `adding` and `removing` choose a pod for each vreplica."""

    model_config = ConfigDict(extra="forbid")

    #: The original's policy type MAXFILLUP.
    fills_up: bool = False
    adding: Direction = Direction(predicates=[Use(name="PodFitsResources")])
    removing: Direction | None = None
    #: What draws lots among pods with equal scores begins with this.
    seed: int = Field(default=1, ge=0, lt=2**31)


class _OneVPod(PluginScheduler):
    """Decides for one vpod. Its snapshot has that vpod only, and the room that all others leave."""

    def __init__(self, vpod: VPodState, state: SetState, settings: V0430Settings) -> None:
        usable = frozenset(state.usable)
        nodes = {ordinal: state.nodes.get(ordinal, "") for ordinal in usable}
        zones = {node: state.zones.get(ordinal, "unknown") for ordinal, node in nodes.items()}
        cluster = Cluster(state.capacity, state.replicas, usable, nodes, zones)
        super().__init__(
            cluster,
            {vpod.key: Committed(vpod.key, vpod.wanted, vpod.placed)},
            fills_up=settings.fills_up,
            adding=settings.adding.policy(),
            removing=settings.removing.policy() if settings.removing else None,
            watched=state.replicas,
            seed=settings.seed,
        )
        self._snapshot = Snapshot(cluster, wanted={vpod.key: vpod.wanted}, pods={vpod.key: {}})
        self._snapshot.pending[vpod.key] = max(0, vpod.wanted - sum(vpod.placed.values()))
        for ordinal in range(max((state.replicas, *(o + 1 for o in vpod.placed)))):
            most = state.most_for(vpod, ordinal) if ordinal in usable else 0
            self._snapshot.take(ordinal, state.capacity - most)
        self._placed: Counts = {}
        self._spread(vpod.key, vpod.placed)

    def state(self) -> Snapshot:
        return self._snapshot

    def _reserve(self, key: str, counts: Counts) -> None:
        self._spread(key, counts)

    def _spread(self, key: str, counts: Counts) -> None:
        """Let the vpod be where `counts` says, and nowhere else."""
        for ordinal, number in self._placed.items():
            self._snapshot.take(ordinal, -number)
        self._snapshot.pods[key] = {}
        for ordinal, number in counts.items():
            self._snapshot.take(ordinal, number)
            self._snapshot.spread(key, ordinal, number)
        self._placed = dict(counts)


def policy(settings: V0430Settings) -> Place:
    """Return the policy with these settings."""
    uses = [*settings.adding.predicates, *(settings.removing.predicates if settings.removing else ())]
    _refuse_unknown(uses, plugins.PREDICATES, "predicate")
    uses = [*settings.adding.priorities, *(settings.removing.priorities if settings.removing else ())]
    _refuse_unknown(uses, plugins.PENALTIES, "priority")

    def place(vpod: VPodState, state: SetState) -> Counts:
        if not settings.fills_up and (looks := _looks(vpod, state, settings)) > MOST_LOOKS:
            text = (
                f"{vpod.wanted} vreplicas on {len(state.usable)} pods take {looks} steps, expected at most {MOST_LOOKS}"
            )
            raise ValueError(f"{text}: use fewer predicates, priorities or vreplicas, or another policy")
        found = _OneVPod(vpod, state, settings).place(vpod.key).counts
        # Where not all fit the original leaves all as it was, on whatever pods that is.
        return {o: min(number, state.most_for(vpod, o)) for o, number in found.items() if state.is_usable(o)}

    return place


def _looks(vpod: VPodState, state: SetState, settings: V0430Settings) -> int:
    """How often a decision looks at a pod, at most. What compares a pod with the others looks at all of them."""
    missing = vpod.wanted - sum(number for o, number in vpod.placed.items() if state.is_usable(o))
    removing = settings.removing if missing < 0 else None
    direction = removing or settings.adding
    # Adding begins anew from none, and the first pods without room end it.
    room = sum(max(0, state.most_for(vpod, ordinal)) for ordinal in state.usable)
    fits = any(each.name == "PodFitsResources" for each in direction.predicates)
    number = -missing if removing else min(vpod.wanted, room) if fits else vpod.wanted
    pods = len(state.usable)
    plain = sum(each.name in _PLAIN for each in (*direction.predicates, *direction.priorities))
    others = len(direction.predicates) + len(direction.priorities) - plain
    return number * pods * (1 + plain + others * pods) if missing else 0


def _refuse_unknown(uses: list[Use], known: dict[str, Any], noun: str) -> None:
    """Raise an error for an unknown name. The original skips it without a message."""
    for use in uses:
        if use.name not in known:
            raise ValueError(f"there is no {noun} {use.name!r}; there are: {', '.join(known)}")
