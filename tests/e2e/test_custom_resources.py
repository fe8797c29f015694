"""Pools and Claims by kubectl, on a real API server: the definitions in manifests/crds are what it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.support.kubectl import CHECKS, CRDS, Kubectl, install


@pytest.fixture(scope="module")
def kubectl(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("home")
    Kubectl(programs["kubectl"], plane.kubeconfig("admin"), home)("create namespace custom-resources")
    made = Kubectl(programs["kubectl"], plane.kubeconfig("admin"), home, "custom-resources")
    install(made)
    yield made
    made("delete --ignore-not-found -k", str(CRDS))
    made("delete namespace custom-resources --wait=false")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_pools_and_claims(kubectl: Kubectl, check: Callable[[Kubectl], None]) -> None:
    check(kubectl)
