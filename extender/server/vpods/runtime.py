"""Runs the engine of vpods: the loop that owns it, and what probes and pages read of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from extender.kube.lease.elector import Fence, no_fence
from extender.server.engine_runtime import EngineRuntime, kinds_of
from extender.server.guard import SLOW
from extender.server.loop import Kinds, Record
from extender.vpods.engine import VPodEngine
from extender.vpods.events import TermBegun, TermEnded, Ticked, VPodEvent, VPodInstruction

_KINDS: Final[Kinds[VPodEvent]] = kinds_of(VPodEvent, term_begun=TermBegun, term_ended=TermEnded, tick=Ticked())


class VPodRuntime(EngineRuntime[VPodEngine, VPodEvent, VPodInstruction]):
    """The API of the engine of vpods. See `EngineRuntime` for the arguments."""

    def __init__(
        self,
        engine: VPodEngine,
        carry_out: Callable[[VPodInstruction], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Record[VPodEvent, VPodInstruction] | None = None,
        hang: float = 0,
        slow: float = SLOW,
    ) -> None:
        super().__init__(
            *(engine, carry_out, _KINDS),
            name="vpods",
            clock=clock,
            fence=fence,
            record=record,
            hang=hang,
            slow=slow,
        )
