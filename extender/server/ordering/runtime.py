"""Runs the engine of start-up ordering: the loop that owns it, and what probes and pages read of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from extender.kube.lease.elector import Fence, no_fence
from extender.ordering.engine import OrderingEngine
from extender.ordering.events import OrderingEvent, OrderingInstruction, TermBegun, TermEnded, Ticked
from extender.server.engine_runtime import EngineRuntime, kinds_of
from extender.server.guard import SLOW
from extender.server.loop import Kinds, Record

_KINDS: Final[Kinds[OrderingEvent]] = kinds_of(OrderingEvent, term_begun=TermBegun, term_ended=TermEnded, tick=Ticked())


class OrderingRuntime(EngineRuntime[OrderingEngine, OrderingEvent, OrderingInstruction]):
    """The API of the engine of start-up ordering. See `EngineRuntime` for the arguments."""

    def __init__(
        self,
        engine: OrderingEngine,
        carry_out: Callable[[OrderingInstruction], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Record[OrderingEvent, OrderingInstruction] | None = None,
        hang: float = 0,
        slow: float = SLOW,
    ) -> None:
        super().__init__(
            *(engine, carry_out, _KINDS),
            name="ordering",
            clock=clock,
            fence=fence,
            record=record,
            hang=hang,
            slow=slow,
        )
