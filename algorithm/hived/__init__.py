"""HiveD: tenants with guaranteed cells of a GPU cluster, who also use what is idle. See docs/algorithm-hived.md.

`config.py` and `layout.py` make cells of the configuration, `cells.py`; `books.py` keeps what is free and owed;
`hive.py` holds everything true, and `recovery.py` brings in what was decided before. A decision is made by
`planner.py`: `nodelist.py` and `placement.py` choose virtual devices, `mapping.py` the hardware. `podspec.py` and
`bindinfo.py` are the annotations, `status.py` the pages, `explain.py` answers why a group waits, and `copies.py` forks.
`devicehealth.py` reads which devices are bad, `promotion.py` gives quota back, `combine.py` brings cells together.
Of changed configurations `diff.py` says what they change, and `outcomes.py` for whom; `draft.py` writes a first one.
"""

from __future__ import annotations

from algorithm.hived.algorithm import HivedAlgorithm
from algorithm.hived.formats.bindinfo import BIND_INFO, ISOLATION, SHARED
from algorithm.hived.formats.plainyaml import load
from algorithm.hived.formats.podspec import SPEC
from algorithm.hived.settings import HivedSettings
from algorithm.hived.state.lazy_preemption import LAZILY
from algorithm.hived.state.promotion import ORDER
from algorithm.registry import Plugin

PLUGIN = Plugin(
    settings=HivedSettings,
    create=HivedAlgorithm,
    parse=load,
    annotations=(SPEC,),
    decisions=(BIND_INFO, ISOLATION, LAZILY, ORDER),
    gang_texts={BIND_INFO: SHARED},
)

__all__ = ["PLUGIN", "HivedAlgorithm", "HivedSettings"]
