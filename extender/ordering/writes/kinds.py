"""All kinds of command of the engine of start-up ordering, for the I/O layers."""

from __future__ import annotations

from extender.ordering.writes import gate, met, read

KINDS = (gate.KIND, met.KIND, read.KIND)
