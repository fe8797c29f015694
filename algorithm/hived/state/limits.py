"""Limits on the devices of opportunistic pods: of the whole cluster, of a chain, and of one virtual cluster.

Without a limit, opportunistic pods take all idle devices, and each device has to be preempted when its owner needs it.
A limit makes new pods wait. It takes nothing from running pods, neither when it is lowered, nor from a gang that was
preempted lazily and goes on without a promise. All of these count against the limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

from pydantic import AfterValidator, Field

from algorithm.hived.cells.chains import Layout
from algorithm.hived.cells.config import Section
from algorithm.hived.state.groups import Group
from algorithm.hived.state.tenancy import OTHERS
from algorithm.hived.state.usage import Usage

_LIMIT = re.compile(r"[0-9]{1,9}|(?:100|[0-9]{1,2})%", re.ASCII)
#: So many names are shown at most.
_SHOWN = 8


def _checked(limit: str) -> str:
    if not _LIMIT.fullmatch(limit):
        raise ValueError(f"expected a number of devices, or a percentage from 0% to 100%, not {limit[:40]!r}")
    return limit


Limit = Annotated[str, AfterValidator(_checked)]


class OpportunisticLimits(Section):
    """Each a number of devices, or a percentage: of the chain's devices, else of the whole cluster's, rounded down."""

    cluster: Limit | None = None
    chains: dict[str, Limit] = Field(default_factory=dict)
    virtual_clusters: dict[str, Limit] = Field(default_factory=dict)


def known(names: Iterable[str], there: Collection[str], field: str, kind: str) -> None:
    """Raises ValueError for the first name that there is not."""
    for name in names:
        if name not in there:
            near = get_close_matches(name, there, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(there)) or 'none'}"
            raise ValueError(f"{field}.{name}: there is no such {kind}; {hint}")


@dataclass(frozen=True, slots=True)
class Bound:
    """At most `devices` of a chain, or of the whole cluster; by one tenant, or by all together."""

    field: str
    devices: int
    chain: str = ""
    tenant: str = ""

    @property
    def text(self) -> str:
        """The rule, without what changes by itself."""
        whose = f" of virtual cluster {self.tenant}" if self.tenant else ""
        of = f"of chain {self.chain}" if self.chain else "of the cluster"
        return (
            f"opportunistic pods{whose} may have at most {self.devices} devices {of} (opportunisticLimits.{self.field})"
        )

    def counts(self, tenant: str, chain: str) -> bool:
        """Whether what the tenant borrows in the chain counts here."""
        return self.tenant in ("", tenant) and self.chain in ("", chain)

    def used(self, usage: Usage) -> int:
        return sum(number for where, number in usage.borrowed.items() if self.counts(*where))

    def users(self, usage: Usage) -> list[str]:
        """The virtual clusters that have something of it."""
        return sorted({tenant for tenant, chain in usage.borrowed if self.counts(tenant, chain)})


class Limits:
    """The operator's limits for one cluster."""

    def __init__(self, limits: OpportunisticLimits, layout: Layout) -> None:
        sizes = {name: len(chain.full[1]) for name, chain in layout.chains.items()}
        whole = sum(sizes.values())
        self._bounds: list[Bound] = []
        if limits.cluster is not None:
            self._bounds.append(Bound("cluster", _devices(limits.cluster, whole)))
        for chain, limit in limits.chains.items():
            self._bounds.append(Bound(f"chains.{chain}", _devices(limit, sizes[chain]), chain=chain))
        for tenant in layout.tenants:
            name = tenant if tenant in limits.virtual_clusters else OTHERS
            if name in limits.virtual_clusters:
                number = _devices(limits.virtual_clusters[name], whole)
                self._bounds.append(Bound(f"virtualClusters.{name}", number, tenant=tenant))

    def forbids(self, usage: Usage, tenant: str, chain: str, devices: int) -> Bound | None:
        """The first limit that so many more devices would exceed."""
        for bound in self._bounds:
            if bound.counts(tenant, chain) and bound.used(usage) + devices > bound.devices:
                return bound
        return None


def refused(bound: Bound, usage: Usage, devices: int) -> str:
    """Why a group waits, in words that stay the same while the same virtual clusters have what there is."""
    if devices > bound.devices:
        return f"{bound.text}, and the group needs {devices}"
    return f"{bound.text}, which {_listed(bound.users(usage))} have now"


def in_numbers(bound: Bound, usage: Usage, groups: Mapping[str, Group], devices: int) -> str:
    """The same for people who ask: what is used, and who uses it, the largest first."""
    sizes = Counter({group.name: _borrowed(group, bound) for group in groups.values() if group.virtual is None})
    most = [f"{name} of {groups[name].tenant} ({size})" for name, size in sizes.most_common() if size]
    by = f": {_listed(most)}" if most else ""
    return f"{bound.text}; the group needs {devices}, and {bound.used(usage)} are used{by}"


def _borrowed(group: Group, bound: Bound) -> int:
    return sum(bound.counts(group.tenant, device.chain) for device, _ in group.leafs())


def _devices(limit: str, whole: int) -> int:
    return whole * int(limit[:-1]) // 100 if limit.endswith("%") else int(limit)


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
