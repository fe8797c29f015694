"""The effect of a changed configuration on running groups: compares two hives with the same pods.

Both hives have really recovered the pods, so the comparison shows facts and not expectations. A group keeps its devices
in any case. The change may affect whether its tenant has them by promise, and whether they are accounted for at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group

_SHOWN = 8


class QuotaStatus(StrEnum):
    """By what right a group has its devices."""

    GUARANTEED = "guaranteed"
    #: It asked for no more.
    OPPORTUNISTIC = "opportunistic"
    #: It asked for a guarantee, and is not, or no longer, covered by a promise.
    UNCOVERED = "uncovered"
    #: Its pods are passed over: what is written on them does not fit.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One group before and after. `lost` and `found` are devices (machine/number) that leave or enter the account."""

    group: str
    tenant: str
    priority: int
    pods: int
    before: QuotaStatus
    after: QuotaStatus
    lost: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    why: str = ""

    @property
    def changed(self) -> bool:
        return self.before is not self.after or bool(self.lost or self.found)

    @property
    def text(self) -> str:
        """A sentence for people."""
        parts = [_STORIES.get((self.before, self.after), f"is {self.after}, was {self.before}")]
        if self.before is self.after:
            parts = [f"stays {self.after}"]
        if self.why:
            parts[0] += f" ({self.why})"
        if self.lost:
            parts.append(f"{_listed(self.lost)} out of account")
        if self.found:
            parts.append(f"{_listed(self.found)} accounted for again")
        return f"group {self.group} of {self.tenant} (priority {self.priority}): {', '.join(parts)}"


_STORIES = {
    (QuotaStatus.GUARANTEED, QuotaStatus.UNCOVERED): "goes on, but loses its guarantee",
    (QuotaStatus.UNCOVERED, QuotaStatus.GUARANTEED): "gets its guarantee back",
    (QuotaStatus.UNKNOWN, QuotaStatus.GUARANTEED): "is accounted for, with its guarantee",
    (QuotaStatus.UNKNOWN, QuotaStatus.UNCOVERED): "is accounted for, without a guarantee",
    (QuotaStatus.UNKNOWN, QuotaStatus.OPPORTUNISTIC): "is accounted for",
}


def outcomes(old: HivedCluster, new: HivedCluster) -> list[Outcome]:
    """Every group that has pods, by name; those that did not change, too."""
    before, after = _running(old), _running(new)
    return [_outcome(name, before.get(name), after.get(name), new) for name in sorted({**before, **after})]


def _running(hive: HivedCluster) -> Mapping[str, Group]:
    return {name: group for name, group in hive.groups.items() if any(group.members())}


def _outcome(name: str, before: Group | None, after: Group | None, new: HivedCluster) -> Outcome:
    group = after or before
    assert group is not None
    # Devices differ only where some are not configured, which is rare; thousands of names need not be made.
    same = before is not None and after is not None and not (_has_holes(before) or _has_holes(after))
    had, has = ({}, {}) if same else (_devices(before), _devices(after))
    was, becomes = _quota_status(before), _quota_status(after)
    return Outcome(
        group=name,
        tenant=group.tenant,
        priority=group.priority,
        pods=sum(1 for _ in group.members()),
        before=was,
        after=becomes,
        lost=tuple(device for device in had if device not in has),
        found=tuple(device for device in has if device not in had) if before is not None else (),
        why=_why(group, new) if becomes is QuotaStatus.UNCOVERED and was is not becomes else "",
    )


def _quota_status(group: Group | None) -> QuotaStatus:
    if group is None:
        return QuotaStatus.UNKNOWN
    if group.virtual is not None:
        return QuotaStatus.GUARANTEED
    return QuotaStatus.OPPORTUNISTIC if group.priority < 0 else QuotaStatus.UNCOVERED


def _why(group: Group, new: HivedCluster) -> str:
    tenant = new.layout.tenants.get(group.tenant)
    if tenant is None:
        return f"there is no virtual cluster {group.tenant}"
    if group.pinned_id and group.pinned_id not in tenant.pinned:
        return f"{group.tenant} has no pinned cell {group.pinned_id}"
    if _has_holes(group):
        return "devices of it are not configured"
    by = group.lazily_preempted_by
    return f"its quota is {by}'s" if by and by != group.name else f"the promise to {group.tenant} does not cover it"


def _devices(group: Group | None) -> dict[str, None]:
    """The devices that are configured."""
    if group is None:
        return {}
    return {f"{device.nodes[0]}/{device.indices[0]}": None for device, _ in group.leafs()}


def _has_holes(group: Group) -> bool:
    return any(leaf is None for pods in group.physical.values() for leafs in pods for leaf in leafs)


def _listed(devices: tuple[str, ...]) -> str:
    more = len(devices) - _SHOWN
    return ", ".join(devices[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
