"""The default algorithm, `packing`: resource fit, gangs, bin-packing or spreading, gang-aware preemption.

`algorithm.py` decides, `state.py` keeps the state, `nodes.py` and `index.py` know what is free, `gangs.py` and
`plan.py` place gangs, `preemption.py` and `victims.py` choose victims, `refusals.py` gives reasons, `summary.py` shows
the state to people. `memo.py`, `perdemand.py` and `counting.py` make refusals cheap.
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
    world="algorithm.conformance.worlds.packing:WORLDS",
)

__all__ = ["PLUGIN", "PackingAlgorithm", "PackingSettings"]
