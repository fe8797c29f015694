"""The gang of a pod: its PodGroup or annotation, as the algorithms read them, else as other schedulers write them."""

from __future__ import annotations

from collections.abc import Mapping

from algorithm.hived.formats.podspec import SPEC, UserError, parse_spec
from algorithm.model import Pod, lookup
from algorithm.packing.gangs import GANG, membership_or_none
from extender.ordering.records import GROUP, Target

#: Of scheduler-plugins (a label, in two spellings), Volcano and Kueue.
_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


def gang_of(pod: Pod, annotations: Mapping[str, str], labels: Mapping[str, str]) -> Target | None:
    """Return the gang of the pod; None if it has none."""
    name = _declared(pod) or next((labels[each] for each in _LABELS if labels.get(each)), "")
    name = name or next((annotations[each] for each in GROUP_ANNOTATIONS if annotations.get(each)), "")
    return Target(GROUP, pod.namespace, name[:253]) if name else None


def _declared(pod: Pod) -> str:
    member = membership_or_none(pod)
    if member is not None:
        return member.gang.name
    if (spec := lookup(pod.annotations, SPEC)) is not None and "affinityGroup" in spec:
        try:
            return parse_spec(spec, namespace=pod.namespace, name=pod.name).group
        except UserError:
            return ""
    return lookup(pod.annotations, GANG) or pod.group
