"""The policy that keeps others from writing Waggle's decisions names all of them."""

from __future__ import annotations

import re

from algorithm.registry import reads
from extender.scheduling.writes.preemption_mark import ANNOTATION
from tests.support.manifests import MANIFESTS, documents


def test_every_annotation_that_only_waggle_writes_is_guarded() -> None:
    policy, _ = documents(MANIFESTS / "components" / "pod-guard" / "decisions.yaml")
    (validation,) = policy["spec"]["validations"]
    guarded = re.findall(r'"([^"]+/[^"]+)"', validation["expression"])
    assert set(guarded) == {ANNOTATION, *reads("packing").decisions, *reads("hived").decisions}


def test_the_component_has_both_policies() -> None:
    (kustomization,) = documents(MANIFESTS / "components" / "pod-guard" / "kustomization.yaml")
    assert kustomization["resources"] == ["decisions.yaml", "policy.yaml"]
