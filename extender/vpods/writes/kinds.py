"""All kinds of command of the engine of vpods, for the I/O layers."""

from __future__ import annotations

from extender.core import scale
from extender.vpods.writes import placements, read

KINDS = (placements.KIND, read.KIND, scale.kind(delays_handover=True))
