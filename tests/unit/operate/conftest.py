"""Certificates as `waggle certs` makes them, once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.operate.certs import create


@pytest.fixture(scope="session")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.crt, tls.crt and tls.key of a kube-scheduler."""
    folder = tmp_path_factory.mktemp("certs")
    create(folder, ["localhost"], ["kube-scheduler"], days=10, ca_days=10, force=False)
    return folder / "kube-scheduler"
