"""Pools and Claims by kubectl, on the embedded API server. tests/e2e/test_custom_resources.py: on a real one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from shutil import which

import pytest

from extender.embedded.apiserver import serve_in_thread
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from tests.e2e.build import find
from tests.support.kubectl import CHECKS, Kubectl, install

_KUBECTL = os.environ.get("WAGGLE_KUBECTL") or which("kubectl") or find("kubectl")


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    if not _KUBECTL:
        if os.environ.get("CI") == "true":
            pytest.fail("kubectl is not installed")
        pytest.skip("kubectl is not installed")
    folder = tmp_path_factory.mktemp("kubectl")
    with serve_in_thread() as cluster:
        made = Kubectl(_KUBECTL, write_kubeconfig(folder / "kubeconfig", cluster.url), folder)
        install(made)
        yield made


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_pools_and_claims(kubectl: Kubectl, check: Callable[[Kubectl], None]) -> None:
    check(kubectl)
