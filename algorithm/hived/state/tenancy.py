"""Rules of the operator for a pod's request: the scope of its group's name, whether its gang gives devices back one by
one, and whether its namespace may use the virtual cluster at all.

The operator's settings (`settings.py`) are applied to what the pod's author wrote (`podspec.py`). Only waiting pods are
checked for the use of a virtual cluster. A bound pod stays, and is recovered whatever the present rules are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal

from algorithm.hived.formats.podspec import SPEC, PodSpec, UserError, parse_spec
from algorithm.model import Pod

#: Of what a group's name is a name: of the whole cluster, if of none of these.
Scope = Literal["virtualCluster", "namespace"]
#: In place of a virtual cluster: all those that are not named.
OTHERS = "*"


class Tenancy:
    """Reads pods as the operator wants them read."""

    def __init__(
        self,
        *,
        names_per: Sequence[Scope] = (),
        allowed: Mapping[str, Sequence[str]] | None = None,
        obeys_gang_release: bool = False,
    ) -> None:
        self._per_tenant, self._per_namespace = "virtualCluster" in names_per, "namespace" in names_per
        self._allowed = allowed or {}
        self._obeys = obeys_gang_release

    def read(self, pod: Pod, *, scope: str | None = None) -> PodSpec:
        """The request of the pod, of whatever namespace; `scope` replaces the scope of its names. Raises UserError."""
        spec = parse_spec(pod.annotation(SPEC) or "", namespace=pod.namespace, name=pod.name)
        if scope is None:
            scope = f"{spec.tenant}/" if self._per_tenant else ""
            scope += f"{pod.namespace}/" if self._per_namespace else ""
        if not (scope or self._obeys):
            return spec
        return replace(spec, scope=scope, group=scope + spec.group, releases=self._obeys and not spec.gang_release)

    def check(self, namespace: str, spec: PodSpec) -> None:
        """Raises UserError if pods of the namespace may not use the virtual cluster."""
        patterns = self._allowed.get(spec.tenant, self._allowed.get(OTHERS))
        if patterns is None or any(fnmatchcase(namespace, pattern) for pattern in patterns):
            return
        who = ", ".join(sorted(patterns)) or "no namespace"
        text = f"namespace {namespace} may not use virtual cluster {spec.tenant}; allowed: {who}"
        raise UserError("namespace-not-allowed", text)


def unambiguous(names_per: Sequence[Scope], tenants: Iterable[str]) -> None:
    """Raises ValueError if scope and name of a group could not be separated again."""
    slashed = sorted(name for name in tenants if "/" in name)
    if "virtualCluster" in names_per and slashed:
        raise ValueError(
            f"groupNamesPer: with virtualCluster, no virtual cluster may have a slash in its name: {', '.join(slashed)}"
        )
