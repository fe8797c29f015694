"""Pools with the order `score`: a plug-in's function says which idle pod suits a request best.

docs/claim-scores.md shows how to write one. A plug-in is a `ScorePlugin` that an installed distribution names:

    [project.entry-points."waggle.scores"]
    mine = "my_package:PLUGIN"

The function gets the pod and the request, and returns a number. The pod with the highest number is chosen; of equal
ones, the first in the pool's order. To bound the cost in large pools, the function is called for the first `CANDIDATES`
pods that fit, or for as many as the request needs if that is more. A call that raises, or returns no finite number,
scores 0 and is counted in `failures`. The function must be fast and depend only on its arguments: it is called under
the engine's lock, and again when a recorded run is replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from extender.claims.events import ClaimAsked
from extender.claims.records import WarmPod
from extender.claims.supply import Supply
from extender.core.said import said_by

CANDIDATES = 16
#: Characters of a failure.
LONGEST = 200
#: The entry-point group of scores, and the version of `Score` that this Waggle speaks.
GROUP, API_VERSION = "waggle.scores", 1

Score = Callable[[WarmPod, ClaimAsked], float]
S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class ScorePlugin(Generic[S]):
    """What a plug-in exports: how to check the settings, and how to make the function from them."""

    settings: type[S]
    create: Callable[[S], Score]
    api_version: int = API_VERSION


class Scores:
    """See the module. Without a function, `bool` of it is False."""

    def __init__(self, score: Score | None) -> None:
        self._score = score
        self.failures = 0
        #: The text of the last failure.
        self.last_failure = ""

    def __bool__(self) -> bool:
        return self._score is not None

    def choose(self, supply: Supply, asked: ClaimAsked, number: int, besides: Collection[str]) -> list[WarmPod]:
        """Return up to `number` idle pods that fit, the best first, but none of `besides`."""
        found = supply.first(asked.demand, max(number, CANDIDATES), besides)
        ranked = sorted(found, key=lambda pod: (supply.rank(pod.uid), -self._of(pod, asked)))
        return ranked[:number]

    def _of(self, pod: WarmPod, asked: ClaimAsked) -> float:
        assert self._score is not None
        try:
            score = float(self._score(pod, asked))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a bug in a plug-in, or its sys.exit(), must not stop the engine
            return self._failed(said_by(error, LONGEST))
        return score if math.isfinite(score) else self._failed(f"expected a finite number, got {score}")

    def _failed(self, why: str) -> float:
        self.failures += 1
        self.last_failure = why[:LONGEST]
        return 0.0
