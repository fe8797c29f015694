"""The pages for people with `inspect_authorization: kubernetes`: a real API server says whose token it is, and what
that user may see.

A control plane of its own, since Waggle has a right here that it has nowhere else: the component auth-delegator.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.hands import eventually
from tests.e2e.processes import Process
from tests.support.manifests import MANIFESTS, ROOT, documents

DELEGATOR = MANIFESTS / "components" / "auth-delegator" / "rbac.yaml"
PAGE = "/v1/inspect/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Look = Callable[..., httpx.Response]


def viewers_role() -> dict[str, object]:
    """The one that docs/security.md tells to apply."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    (found,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "waggle-viewer" in block)
    role: dict[str, object] = yaml.safe_load(found)
    return role


@pytest.fixture(scope="module")
def plane_of_its_own(programs: Mapping[str, Path], folder: Path) -> Iterator[ControlPlane]:
    home = folder / "test_who_may_look"
    home.mkdir()
    with ControlPlane(programs, home, bare=True) as plane:
        yield plane


@pytest.fixture(scope="module")
def admin(plane_of_its_own: ControlPlane) -> Iterator[httpx.Client]:
    with plane_of_its_own.client() as client:
        yield client


@pytest.fixture(scope="module")
def token(admin: httpx.Client) -> Callable[[str], str]:
    """Of a service account, which is made."""

    def made(name: str) -> str:
        path = "/api/v1/namespaces/default/serviceaccounts"
        describe(admin.post(path, json={"metadata": {"name": name}}))
        answer: str = describe(admin.post(f"{path}/{name}/token", json={"spec": {}}))["status"]["token"]
        return answer

    return made


@pytest.fixture(scope="module")
def look(plane_of_its_own: ControlPlane) -> Iterator[Look]:
    """Gets a page of a Waggle that asks the API server who may."""
    plane = plane_of_its_own
    told, config = plane.folder / "waggle.url", plane.folder / "waggle.yaml"
    server = {"port": 0, "inspect_authorization": "kubernetes"}
    config.write_text(yaml.safe_dump({"server": server, "cluster": {"kubeconfig": str(plane.kubeconfig("waggle"))}}))
    command = [sys.executable, "-m", "extender.cli", "serve", "--config", config, "--url-file", told]
    waggle = Process("waggle", command, plane.folder / "waggle.log")
    try:
        eventually(told.exists, "Waggle serves")

        def get(shown: str = "", page: str = PAGE) -> httpx.Response:
            headers = {"authorization": f"Bearer {shown}"} if shown else {}
            return httpx.get(told.read_text(encoding="utf-8") + page, headers=headers, timeout=30)

        eventually(lambda: get(page="/readyz").status_code == 200, "Waggle is ready")
        yield get
    finally:
        waggle.stop()


def test_a_waggle_that_may_not_ask_shows_nothing(look: Look, token: Callable[[str], str]) -> None:
    answer = look(token("early"))
    assert answer.status_code == 503
    assert "tokenreviews" in answer.text


def test_only_who_has_the_viewers_role_looks(look: Look, admin: httpx.Client, token: Callable[[str], str]) -> None:
    for item in documents(DELEGATOR):
        describe(admin.post(f"{RBAC}/clusterrolebindings", json=item))
    stranger, viewer = token("stranger"), token("viewer")
    eventually(lambda: look(stranger).status_code == 403, "Waggle may ask now")
    assert f"system:serviceaccount:default:stranger may not get the non-resource URL {PAGE}" in look(stranger).text
    assert look().status_code == look("invented").status_code == 401

    role = viewers_role()
    describe(admin.post(f"{RBAC}/clusterroles", json=role))
    binding = {
        "metadata": {"name": "waggle-viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "waggle-viewer"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "viewer"}],
    }
    describe(admin.post(f"{RBAC}/clusterrolebindings", json=binding))
    eventually(lambda: look(viewer).status_code == 200, "who has the role looks")
    assert look(viewer, "/v1/explain/default/nobody").status_code == 404
    assert look(stranger).status_code == 403
