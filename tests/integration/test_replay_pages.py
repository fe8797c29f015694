"""One moment of a recording on a socket: the pages of a live server, and a refusal of everything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.operate.replay_look import frozen_app
from extender.recording.files import LOG, name_of
from extender.replay.frozen import freeze
from extender.replay.logs import open_log
from extender.replay.moments import parse
from extender.settings import ServerSettings, Settings
from extender.web.http.server import serve_in_thread
from tests.support.engine.objects import pod
from tests.support.engine.scripted_log import two_nodes
from tests.support.http.fixed_runtime import Answer, Client, capture

REPLAY = "waggle.log at +4m0s, after event 15"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = two_nodes().write(Path(tmp_path_factory.mktemp("log")) / "waggle.log")
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(frozen_app(freeze(open_log(path), parse("+4m"), usage=True), settings), settings) as server:
        yield Client(server.url)


def sent(client: Client, method: str, path: str, body: bytes = b"{}") -> Answer:
    with closing(client.connect()) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, dict(response.headers), response.read())


def test_the_pages_are_those_of_the_moment(client: Client):
    pods = client.get("/v1/inspect/pods").json["items"]
    assert [(pod["name"], pod["state"], pod["sinceSeconds"]) for pod in pods][2] == ("c", "Waiting", 60.0)
    assert client.get("/v1/inspect/pods").json["items"] == pods
    assert client.get("/v1/explain/default/a").json["pod"]["node"] == "n1"
    assert [node["name"] for node in client.get("/v1/inspect/nodes").json["items"]] == ["n1", "n2"]
    assert client.get("/v1/inspect/table/pods").json["total"] == 3
    assert 'waggle_pods{state="Bound"} 2.0' in client.get("/metrics").body.decode()


def test_the_page_for_people_says_which_moment_it_shows(client: Client):
    head = client.get("/v1/inspect/map").json["pieces"]["0"]
    assert (head["replay"], head["now"] > 0, head["plans"]) == (REPLAY, True, False)
    assert 'id="replay"' in client.get("/ui").body.decode()


def test_the_last_hour_is_that_before_the_moment(client: Client):
    pieces = client.get("/v1/inspect/map").json["pieces"].values()
    [history] = [piece["history"] for piece in pieces if "history" in piece]
    assert [row[1:3] for row in history] == [[0, 0]] * 3 + [[1, 0]] * 2 + [[2, 0]] + [[2, 1]] * 3


def test_pods_with_a_scheduling_gate_are_shown_and_what_is_not_known_is_said(tmp_path: Path):
    log = two_nodes()
    log.see(410.0, replace(pod("held"), gated=True))
    folder = log.write_folder(tmp_path / "log", every=6)
    (folder / name_of(1, LOG)).unlink()
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(frozen_app(freeze(open_log(folder), parse("end")), settings), settings) as server:
        client = Client(server.url)
        page = client.get("/v1/inspect/held-back").json
        assert ([each["name"] for each in page["items"]], "before event 7 " in page["unknown"]) == (["held"], True)
        assert "scheduling gate" in client.get("/v1/explain/default/held").json["summary"]
        pieces = client.get("/v1/inspect/map").json["pieces"]
        assert pieces["0"]["unknown"] == page["unknown"]
        [waiting] = [piece["waiting"] for piece in pieces.values() if "waiting" in piece]
        assert [each["name"] for each in waiting] == ["c", "held"]
        assert "/v1/inspect/held-back" in client.get("/").json["pages"]


@pytest.mark.parametrize("path", ["/filter", "/bind", "/preempt", "/prioritize", "/v1/extender/filter", "//filter/"])
def test_verbs_are_refused(client: Client, path: str):
    answer = sent(client, "POST", path, capture("filter-nodenames") if path.endswith("filter") else b"{}")

    assert answer.status == 403
    assert answer.json["error"].startswith(f"this is a replay of {REPLAY}, read-only: POST ")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/v1/plan", "/ui", "/v1/inspect/pods", "/v1/pools/a/b/claims", "/v1/inspect/virtualclusters/a"]
)
def test_every_write_is_refused(client: Client, method: str, path: str):
    assert sent(client, method, path).status == 403


def test_nothing_that_was_asked_has_changed_the_moment(client: Client):
    before = client.get("/v1/inspect/cache").json
    sent(client, "POST", "/filter", capture("filter-nodenames"))
    assert client.get("/v1/inspect/cache").json == before


def test_probes_say_that_it_lives_and_serves_no_calls(client: Client):
    assert client.get("/livez").status == 200
    ready = client.get("/readyz")
    assert (ready.status, REPLAY in ready.json["error"]) == (503, True)


def test_the_index_names_no_verb(client: Client):
    index = client.get("/").json
    assert index["verbs"] == []
    assert (
        index["about"]
        == f"A replay of {REPLAY}, read-only: the pages of that moment. It serves no verb of kube-scheduler."
    )
