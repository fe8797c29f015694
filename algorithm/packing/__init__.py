"""The default algorithm, `packing`: resource fit, gangs, bin-packing or spreading, gang-aware preemption.

`algorithm.py` decides, `state.py` remembers, `nodes.py` and `index.py` know what is free, `gangs.py` and `plan.py` seat
gangs, `preemption.py` and `victims.py` make room, `refusals.py` explains, `summary.py` shows. That
refusals are cheap is the work of `memo.py`, `perdemand.py` and `counting.py`.
"""

from __future__ import annotations

from algorithm.packing.algorithm import PackingAlgorithm
from algorithm.packing.gangs import GANG, GANG_MIN, GANG_PLAN, LONGEST_NAME
from algorithm.packing.settings import PackingSettings
from algorithm.registry import Plugin

PLUGIN = Plugin(
    settings=PackingSettings,
    create=PackingAlgorithm,
    annotations=(GANG, GANG_MIN),
    lengths={GANG: LONGEST_NAME, GANG_MIN: LONGEST_NAME},
    decisions=(GANG_PLAN,),
    claims=(GANG_PLAN,),
    node_annotations=(),
)

__all__ = ["PLUGIN", "PackingAlgorithm", "PackingSettings"]
