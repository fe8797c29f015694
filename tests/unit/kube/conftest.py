from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as scripted:
        yield scripted


@pytest.fixture
def api(server: ScriptedServer) -> Iterator[ApiServer]:
    api = connect(ClusterSettings(server=server.url))
    yield api
    api.close()
