"""Why a group waits, in sentences: what its tenant was promised, which groups have that now, and which would have to
end.

"16 devices are free, why does my job of 16 wait?" has an answer only in numbers and names, so these texts have both.
They are for people who ask. The reasons in answers to kube-scheduler contain no numbers that change by themselves.

The first sentence is the verdict, the last one says what would help. Numbers are counted (`capacity.py`). Whether the
end of a group would help is tried out (`unblockers.py`): nothing is guessed. `explain_text.py` has the wording.

Trying takes tenths of a second in large clusters. So it goes step by step, and the hive may change in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from algorithm.hived.formats.podspec import PodSpec, UserError
from algorithm.hived.insight import explain_text
from algorithm.hived.insight.capacity import ChainCapacity, capacity_of
from algorithm.hived.insight.explain_text import listed
from algorithm.hived.insight.unblockers import find_unblockers
from algorithm.hived.insight.whatif import ended
from algorithm.hived.planning.planner import Plan, Refusal, candidate_chains, decide, over_limit
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import GroupState
from algorithm.hived.state.limits import in_numbers

#: Refusals that numbers can explain.
_COUNTED = frozenset(
    {
        "insufficient-capacity",
        "needs-bad-node",
        "needs-bad-devices",
        "opportunistic-limit",
        "needs-non-suggested-node",
        "mapping-needs-bad-node",
        "mapping-needs-bad-or-non-suggested-node",
    }
)


def explain(
    hive: HivedCluster,
    spec: PodSpec,
    *,
    protected: Collection[str] = (),
    warnings: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """For a group that has no place yet. Nodes that kube-scheduler does not offer count as offered here.

    `protected` are UIDs of pods that cannot be evicted now, `warnings` are about what is written on nodes and cannot be
    read, by node. Changes nothing. An empty sentence is a step that says nothing. The hive may change between steps.
    """
    try:
        with ended(hive):
            decision = decide(hive, spec, hive.layout.machines.keys(), preempting=True)
    except UserError as error:
        yield _refused(hive, spec, error)
        return
    if isinstance(decision, Plan):
        yield from _possible(decision, spec, protected)
    elif decision.kind == "being-preempted":
        yield f"{decision.text}."
    elif decision.kind not in _COUNTED:
        yield from _tried(hive, spec, [], [f"{decision.text}."])
    else:
        yield from _counted(hive, spec, decision, warnings or {})


def _counted(hive: HivedCluster, spec: PodSpec, refusal: Refusal, warnings: Mapping[str, str]) -> Iterator[str]:
    capacities = [capacity_of(hive, spec, chain) for chain in candidate_chains(hive, spec)]
    if not capacities:
        yield f"{spec.tenant} is promised nothing but pinned cells, and {spec.group} names none."
        return
    sentences = [sentence for each in capacities for sentence in _shortage(hive, spec, each, refusal)]
    sentences += [f"Node {node}: {text}." for node, text in sorted(warnings.items())[: explain_text.SHOWN]]
    if all(_never(hive, spec, each) for each in capacities):
        yield from sentences
    else:
        yield from _tried(hive, spec, capacities, sentences)
        yield from _in_line(hive, spec)


def _tried(
    hive: HivedCluster, spec: PodSpec, capacities: Sequence[ChainCapacity], sentences: Sequence[str]
) -> Iterator[str]:
    """These sentences, and which groups' end would help. All but the last are of one moment."""
    yield from sentences
    steps = find_unblockers(hive, spec, capacities)
    while True:
        try:
            next(steps)
        except StopIteration as found:
            yield explain_text.unblockers(found.value, spec)
            return
        yield ""


def _in_line(hive: HivedCluster, spec: PodSpec) -> list[str]:
    names = [group.name for group in hive.lazily_preempted if group.tenant == spec.tenant and group.lazy]
    return [explain_text.promoted_first(names)] if names and hive.promoting and spec.priority >= 0 else []


def _never(hive: HivedCluster, spec: PodSpec, found: ChainCapacity) -> bool:
    """Whether it does not fit even if nothing else runs and everything is healthy."""
    over = over_limit(hive, spec, found.chain)
    return found.never or (over is not None and spec.devices > over.devices)


# -- what is wrong with the wish --------------------------------------------------------------------------------------


def _refused(hive: HivedCluster, spec: PodSpec, error: UserError) -> str:
    """It can never run as it is: what it could have said instead."""
    layout = hive.layout
    tenant = layout.tenants.get(spec.tenant)
    if tenant is None:
        return f"There is no virtual cluster {spec.tenant}; there are: {listed(sorted(layout.tenants))}."
    if error.kind == "vc-lacks-pinned-cell":
        return f"{spec.tenant} has no pinned cell {spec.pinned_id}; it has: {listed(sorted(tenant.pinned))}."
    if error.kind == "leaf-type-unknown":
        return f"No device is a {spec.leaf_type}; there are: {listed(sorted(hive.chains_of))}."
    if error.kind == "vc-lacks-leaf-type":
        types = sorted({layout.chains[chain].leaf_type for chain in tenant.full})
        return (
            f"{spec.tenant} is promised no {spec.leaf_type}, but: {listed(types)}. "
            "With priority -1 it could use what is idle."
        )
    return f"{error}."


# -- there is a place -------------------------------------------------------------------------------------------------


def _possible(plan: Plan, spec: PodSpec, protected: Collection[str]) -> list[str]:
    victims = {member for members in plan.victims.values() for member in members}
    if victims:
        names = listed(sorted(member.name for member in victims))
        sentences = [f"{spec.group} takes the place of lower priorities; it runs when these pods are gone: {names}."]
        spared = sorted(member.name for member in victims if member.uid in protected)
        if spared:
            sentences.append(f"A PodDisruptionBudget forbids to evict {listed(spared)} now.")
        return sentences
    nodes = list(dict.fromkeys(place.node for _, places in plan.allocation.places for place in places))
    if plan.group.state is GroupState.ALLOCATED:
        place = f"{spec.group} has its devices; this pod's are on {plan.allocation.node}."
        nodes = [plan.allocation.node]
    else:
        place = f"There is room for all of {spec.group} now, on {listed(nodes)}."
    which = "that node" if len(nodes) == 1 else "these nodes"
    return [
        f"{place} It runs as soon as kube-scheduler asks again and offers {which}.",
        "What kube-scheduler does not offer was refused by its own filters: taints, affinity, cpu, memory, ports.",
    ]


# -- what is missing --------------------------------------------------------------------------------------------------


def _shortage(hive: HivedCluster, spec: PodSpec, found: ChainCapacity, refusal: Refusal) -> Iterator[str]:
    if found.never:
        yield explain_text.never(spec, found)
        return
    over = over_limit(hive, spec, found.chain)
    if over is not None:
        yield f"{in_numbers(over, hive.usage, hive.groups, spec.devices)}."
        return
    yield _verdict(spec, found, refusal)
    quota_is_missing = spec.priority >= 0 and found.left < found.need
    if quota_is_missing and found.idle >= found.need:
        yield explain_text.free_for_others(spec, found)
    bad = [] if quota_is_missing else _bad_hardware(hive, found.chain)
    if bad:
        yield explain_text.bad_hardware(bad)


def _verdict(spec: PodSpec, found: ChainCapacity, refusal: Refusal) -> str:
    if found.left < found.need:
        return explain_text.used_up(spec, found)
    if found.left - found.bad < found.need:
        return explain_text.too_many_bad(spec, found)
    if found.fitting < found.pods:
        return explain_text.scattered(spec, found)
    if refusal.kind.startswith("mapping"):
        return explain_text.not_mapped(spec, found)
    return explain_text.not_found(spec, found)


def _bad_hardware(hive: HivedCluster, chain: str) -> list[str]:
    """Machines of the chain, with the numbers of the bad devices where others are healthy."""
    found: list[str] = []
    for name, devices in hive.layout.machines.items():
        bad = [device for device in devices if device.chain == chain and not device.healthy]
        if bad and any(device.healthy for device in devices):
            found.append(f"{name} {','.join(str(device.indices[0]) for device in bad)}")
        elif bad:
            found.append(name)
    return found
