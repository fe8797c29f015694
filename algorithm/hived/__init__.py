"""HiveD: tenants have guaranteed cells of a GPU cluster, and also use idle ones. See docs/algorithm-hived.md.

    formats/     the contents of annotations: requests of pods (podspec.py), decisions (bindinfo.py)
    cells/       cells from the configuration (config.py, layout.py), the free and owed cells of each chain
                 (chain_allocator.py), and how changes of them are undone (journal.py)
    state/       groups, quota, devices (cluster.py), pods (pods.py); recovery of decisions (recovery.py, gangs.py)
    planning/    a decision (planner.py): virtual devices (placement.py), then the hardware (mapping.py)
    insight/     pages, explanations, what a changed configuration would mean, a first configuration

`algorithm.py` is the algorithm of the framework, `bootstrap.py` and `accounts.py` take bound pods into account.
"""

from __future__ import annotations

from algorithm.hived.algorithm import HivedAlgorithm
from algorithm.hived.formats.bindinfo import BIND_INFO, ISOLATION, SHARED
from algorithm.hived.formats.plainyaml import load
from algorithm.hived.formats.podspec import SPEC
from algorithm.hived.settings import HivedSettings
from algorithm.hived.state.lazy_preemption import LAZILY_PREEMPTED, ORDER
from algorithm.registry import Plugin

PLUGIN = Plugin(
    settings=HivedSettings,
    create=HivedAlgorithm,
    parse=load,
    annotations=(SPEC,),
    decisions=(BIND_INFO, ISOLATION, LAZILY_PREEMPTED, ORDER),
    gang_texts={BIND_INFO: SHARED},
    world="algorithm.conformance.worlds.hived:WORLDS",
)

__all__ = ["PLUGIN", "HivedAlgorithm", "HivedSettings"]
