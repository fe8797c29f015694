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
        found = _OneVPod(vpod, state, settings).place(vpod.key).counts
        # Where not all fit the original leaves all as it was, on whatever pods that is.
        return {o: min(number, state.most_for(vpod, o)) for o, number in found.items() if state.is_usable(o)}

    return place


def _refuse_unknown(uses: list[Use], known: dict[str, Any], noun: str) -> None:
    """The original skips what it does not know. A person who configures it wants to be told."""
    for use in uses:
        if use.name not in known:
            raise ValueError(f"there is no {noun} {use.name!r}; there are: {', '.join(known)}")
