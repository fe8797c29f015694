"""HiveD behind the real runtime and face, under the original's paths: what its dashboards read, what its pods get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from algorithm.hived import HivedAlgorithm, HivedSettings
from algorithm.model import Node
from extender.scheduling.events import NodeSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.runtime import Runtime
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.http.fixed_runtime import Client

CONFIGURATION = """
physicalCluster:
  cellTypes:
    host: {childCellType: gpu, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: host, cellAddress: a}
  - {cellType: host, cellAddress: b}
virtualClusters:
  blue: {virtualCells: [{cellType: host, cellNumber: 1}]}
  red: {virtualCells: [{cellType: host, cellNumber: 1}]}
"""


@pytest.fixture
def client() -> Iterator[Client]:
    engine = SchedulerStateMachine(HivedAlgorithm(HivedSettings.model_validate(yaml.safe_load(CONFIGURATION))))
    runtime = Runtime(engine, lambda command: None)
    runtime.start()
    runtime.handle(*[NodeSeen(Node(name=name, uid=name)) for name in ("a", "b")], Synced())
    wanted = Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(runtime, wanted), wanted) as server:
        yield Client(server.url)
    runtime.stop()
    engine.validate()


def pod(name: str, **wish: Any) -> dict[str, Any]:
    annotations = {"hivedscheduler.microsoft.com/pod-scheduling-spec": yaml.safe_dump(wish)}
    limits = {"hivedscheduler.microsoft.com/pod-scheduling-enable": "1"}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}]},
    }


def test_a_pod_is_placed_under_the_originals_path_and_its_group_is_shown(client: Client) -> None:
    wish = {"virtualCluster": "blue", "priority": 1, "leafCellType": "gpu", "leafCellNumber": 2}

    answer = client.post("/v1/extender/filter", {"Pod": pod("p", **wish), "NodeNames": ["a", "b"]})
    groups = client.get("/v1/inspect/affinitygroups/").json

    assert answer.json["Error"] == ""
    [node] = answer.json["NodeNames"]
    assert groups == {
        "items": [
            {
                "metadata": {"name": "ns/p"},
                "status": {
                    "vc": "blue",
                    "priority": 1,
                    "state": "Allocated",
                    "physicalPlacement": {node: [0, 1]},
                    "virtualPlacement": {"blue/0": ["blue/0/0", "blue/0/1"]},
                    "allocatedPods": ["p"],
                },
            }
        ]
    }
    assert client.get("/v1/inspect/affinitygroups/ns/p").json == groups["items"][0]


def test_the_cells_are_shown_as_the_original_shows_them(client: Client) -> None:
    wish = {"virtualCluster": "red", "priority": -1, "leafCellType": "gpu", "leafCellNumber": 1}
    client.post("/filter", {"Pod": pod("q", **wish), "NodeNames": ["a", "b"]})

    status = client.get("/v1/inspect/clusterstatus").json

    assert status["physicalCluster"] == client.get("/v1/inspect/clusterstatus/physicalcluster").json
    assert status["virtualClusters"] == client.get("/v1/inspect/clusterstatus/virtualclusters/").json
    red = client.get("/v1/inspect/clusterstatus/virtualclusters/red").json
    assert status["virtualClusters"]["red"] == red
    [top, borrowed] = red
    assert (top["cellType"], top["isNodeLevel"], top["cellState"]) == ("host", True, "Free")
    assert (borrowed["cellAddress"], borrowed["cellPriority"]) == (f"{borrowed['physicalCell']['cellAddress']}-opp", -1)
    [used] = [cell for cell in status["physicalCluster"] if cell["cellState"] == "Used"]
    assert [child.get("vc") for child in used["cellChildren"]] == ["red", None]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("affinitygroups/ghost", 400, "affinity group ghost does not exist"),
        ("clusterstatus/virtualclusters/green", 400, "VC green not found"),
        ("nonsense", 404, "HiveD has affinitygroups and clusterstatus"),
    ],
)
def test_a_page_that_is_not_there_says_what_is(client: Client, path: str, status: int, said: str) -> None:
    answer = client.get(f"/v1/inspect/{path}")

    assert answer.status == status
    assert said in answer.text


def test_a_wrong_wish_is_answered_with_what_is_wrong(client: Client) -> None:
    answer = client.post("/filter", {"Pod": pod("r", virtualCluster="green", leafCellNumber=1), "NodeNames": ["a"]})

    [text] = answer.json["FailedAndUnresolvableNodes"].values()
    assert "VC green does not exist" in text
