"""Waggle under exactly what an operator applies: its service account, with the roles of manifests/base/rbac.yaml, and
of components/ordering, which some tests switch on.

That nothing was refused to it in the whole run is checked at the end of the run, in conftest.py.
"""

from __future__ import annotations

import pytest
import yaml

from tests.e2e import audit
from tests.e2e.cluster import ORDERING_RIGHTS, WAGGLES_RIGHTS, ControlPlane
from tests.e2e.world import RealCluster, eventually
from tests.support.apiserver.rbac import grants

WORLD = {"settings": {"preemption": {"mode": "direct"}}}


@pytest.fixture(scope="module")
def allowed() -> set[tuple[str, str, str]]:
    texts = (path.read_text(encoding="utf-8") for path in (WAGGLES_RIGHTS, ORDERING_RIGHTS))
    roles = [item for text in texts for item in yaml.safe_load_all(text) if "rules" in item]
    return {grant for role in roles for grant in grants(role["rules"])}


def test_its_service_account_has_no_other_right_than_its_own_roles(plane: ControlPlane) -> None:
    with plane.client() as admin:
        bound = []
        for kind in ("clusterrolebindings", "rolebindings"):
            items = admin.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}").json()["items"]
            bound += [item["roleRef"]["name"] for item in items if _names_waggle(item)]
    assert sorted(bound) == ["waggle", "waggle", "waggle-ordering"]


def _names_waggle(binding: dict) -> bool:
    return any(subject["name"] == "waggle" for subject in binding.get("subjects") or ())


def test_everything_that_it_does_for_pods_it_does_under_that_name(
    w: RealCluster, plane: ControlPlane, allowed: set[tuple[str, str, str]]
) -> None:
    w.nodes(1)
    w.pod("low", gpus=8)
    w.place("low")
    w.pod("high", gpus=8, priority=1000)
    w.place("high")
    eventually(lambda: w.events("low", "Preempted"), "its event is written")
    here = audit.used(plane, namespace=w.namespace)
    assert here >= {
        ("create", "", "pods/binding"),
        ("create", "", "pods/eviction"),
        ("patch", "", "pods"),
        ("create", "", "events"),
    }
    assert audit.used(plane) >= {(verb, "", kind) for verb in ("list", "watch") for kind in ("pods", "nodes")}
    assert audit.used(plane) <= allowed
    assert not any("system:masters" in names for names in audit.groups(plane))
