"""The rights for plans as they are shipped are those that are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.server.plans.live import KINDS
from extender.web.plans.callers import PATH
from tests.support.apiserver.rbac import grants
from tests.support.manifests import MANIFESTS, Object, chart, documents, helm, kubectl, kustomized

RBAC = {(item["kind"], item["metadata"]["name"]): item for item in documents(MANIFESTS / "components/plans/rbac.yaml")}


def test_the_server_may_list_what_plans_read_and_do_nothing_else() -> None:
    used = {("list", each.api_version.rpartition("/")[0], each.plural) for each in KINDS}
    granted = grants(RBAC["ClusterRole", "waggle-plans"]["rules"])
    assert used <= granted
    assert {resource for _, _, resource in granted} == {resource for _, _, resource in used}
    assert {verb for verb, _, _ in granted} == {"list"}


def test_planners_may_ask_for_plans_and_do_nothing_else() -> None:
    rules = RBAC["ClusterRole", "waggle-planner"]["rules"]
    assert rules == [{"nonResourceURLs": [PATH], "verbs": ["post"]}]
    bound = [item["roleRef"]["name"] for (kind, _), item in RBAC.items() if kind == "ClusterRoleBinding"]
    assert bound == ["waggle-plans"]


@pytest.mark.skipif(not kubectl(), reason="needs kubectl 1.21 or newer (or its path in WAGGLE_KUBECTL)")
@pytest.mark.skipif(not helm(), reason="needs helm (or its path in WAGGLE_HELM); `make e2e` builds it")
def test_the_chart_makes_what_the_component_makes(tmp_path: Path) -> None:
    def named(items: list[Object]) -> dict[tuple[str, str], Object]:
        return {(each["kind"], each["metadata"]["name"]): each for each in items}

    ours = named(chart("--set=plans.rights=true"))
    theirs = named(kustomized(tmp_path, ("second-scheduler", "cert-manager", "pod-guard", "image", "plans")))
    for name in RBAC:
        for part in ("rules", "roleRef", "subjects"):
            assert ours[name].get(part) == theirs[name].get(part)
    assert not RBAC.keys() & named(chart()).keys()
