"""Certificates that kube-scheduler can read."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def certificate_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A CA, a client certificate and its key, as options of `SchedulerOptions`."""
    pytest.skip("no certificates yet")
