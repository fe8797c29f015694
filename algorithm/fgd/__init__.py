"""Fragmentation gradient descent: GPU sharing without leaving pieces that no pod can use. See docs/algorithm-fgd.md.

`algorithm.py` decides, `state.py` keeps the state, `devices.py` knows what is free of a node, `needs.py` reads pods,
`fragmentation.py` measures, `policies.py` scores, `ranking.py` keeps scores, `preemption.py` chooses victims.
"""

from __future__ import annotations

from algorithm.fgd.algorithm import FgdAlgorithm
from algorithm.fgd.needs import COUNT, INDEX, LONGEST, MILLI, MODEL
from algorithm.fgd.settings import FgdSettings
from algorithm.registry import Plugin

PLUGIN = Plugin(
    settings=FgdSettings,
    create=FgdAlgorithm,
    annotations=(MILLI, COUNT, MODEL),
    lengths={MILLI: 20, COUNT: 20, MODEL: LONGEST},
    decisions=(INDEX,),
    node_annotations=(),
    world="algorithm.conformance.worlds.fgd:WORLDS",
)

__all__ = ["PLUGIN", "FgdAlgorithm", "FgdSettings"]
