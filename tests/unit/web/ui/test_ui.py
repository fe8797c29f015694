"""The web page's files and what it draws from, as a browser asks for them."""

from __future__ import annotations

import gzip
import json
import re
import time
from contextlib import closing
from importlib.resources import files
from typing import Any

import pytest

from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from extender.server.views import PodView, Readiness
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from extender.web.ui.waiting import waiting_pieces
from tests.support.http.fixed_runtime import Answer, Client, FixedRuntime

STATIC = {item.name: item.read_text(encoding="utf-8") for item in (files("extender.web.ui") / "static").iterdir()}
EXHAUSTED = reason(Code.CELLS_EXHAUSTED, group="ns/g", detail="no room")


def get(client: Client, path: str, **headers: str) -> Answer:
    with closing(client.connect()) as connection:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Answer(response.status, dict(response.headers), response.read())


def drawn(client: Client, runtime: FixedRuntime) -> list[dict[str, Any]]:
    """All pieces, of a new face: one that was asked a moment ago does not look again."""
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        pieces = Client(server.url).get("/v1/inspect/map").json["pieces"]
    return [pieces[str(number)] for number in range(len(pieces))]


# -- files ----------------------------------------------------------------------------------------------------


def test_the_page_may_use_nothing_but_this_server(client: Client):
    answer = client.get("/ui")

    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", sorted(STATIC))
def test_each_file_is_served_with_its_type(client: Client, name: str):
    answer = client.get(f"/ui/{name}")

    assert answer.status == 200
    assert answer.text == STATIC[name]
    kinds = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
    assert answer.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])


def test_a_browser_that_has_a_file_does_not_get_it_again(client: Client):
    tag = client.get("/ui/main.js").headers["etag"]

    answer = get(client, "/ui/main.js", If_None_Match=f'W/"other", {tag}')

    assert (answer.status, answer.body) == (304, b"")
    assert get(client, "/ui/main.js", If_None_Match='"other"').status == 200


def test_files_are_compressed_for_who_can_read_that(client: Client):
    answer = get(client, "/ui/main.js", Accept_Encoding="br, gzip")

    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body).decode() == STATIC["main.js"]
    assert "content-encoding" not in get(client, "/ui/main.js", Accept_Encoding="gzip;q=0").headers


def test_a_slash_too_many_leads_to_the_page(client: Client):
    answer = client.get("/ui/")

    assert (answer.status, answer.headers["location"]) == (307, "../ui")


@pytest.mark.parametrize("path", ["/ui/nothing.js", "/ui/..%2Froutes.py", "/ui/static%2Fmain.js", "/ui/x/main.js"])
def test_nothing_else_is_served(client: Client, path: str):
    assert client.get(path).status == 404


def test_no_file_needs_anything_from_elsewhere():
    for name, text in STATIC.items():
        outside = [url for url in re.findall(r"https?://[^\s\"')]+", text) if url != "http://www.w3.org/2000/svg"]
        assert outside == [], name


def test_every_import_and_every_link_is_there():
    for name, text in STATIC.items():
        for wanted in re.findall(r'from "\./([^"]+)"', text) + re.findall(r'(?:src|href)="ui/([^"]+)"', text):
            assert wanted in STATIC, f"{name} wants {wanted}"


def test_nothing_is_inline_and_nothing_is_read_as_html():
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style| style=| on[a-z]+=", STATIC["index.html"])
    for name, text in STATIC.items():
        if name.endswith(".js"):
            assert not re.search(
                r"(inner|outer)HTML *=(?!=)|insertAdjacentHTML|document\.write|\beval\(|new Function", text
            ), name


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read(theme: int):
    """WCAG 2.1 AA: 4.5 to 1 for text, 3 to 1 for what is drawn."""
    both = STATIC["style.css"].partition("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", both[2 * theme].partition("\n* {")[0]))
    for ink in ("ink", "muted", "accent", "danger"):
        for paper in ("panel", "page"):
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
    for ink, paper in (("warn", "warm"), ("warn", "panel"), ("good", "panel"), ("muted", "shade"), ("ink", "shade")):
        assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
    for mark in ("bad", "used", "good"):
        assert contrast(colours[mark], colours["machine"]) >= 3, mark
    assert contrast(colours["cross"], colours["bad"]) >= 3


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# -- who may look ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/ui", "/ui/main.js", "/v1/inspect/map"])
def test_it_is_guarded_as_the_other_pages_for_people(path: str):
    settings = Settings(server=ServerSettings(port=0, inspect_authorization="kubernetes"))
    with serve_in_thread(create_app(FixedRuntime(), settings), settings) as server:
        assert Client(server.url).get(path).status == 503  # there is nobody to ask


# -- what is drawn --------------------------------------------------------------------------------------------


def test_first_comes_what_this_is(client: Client, runtime: FixedRuntime):
    runtime.ready = Readiness(False, "nodes have not been listed yet")

    assert drawn(client, runtime)[0] == {
        "algorithm": "packing",
        "ready": False,
        "detail": "nodes have not been listed yet",
        "silent": 0,
        "plans": False,
        "faults": [],
    }


def test_a_silent_api_server_is_told_of(client: Client, runtime: FixedRuntime):
    runtime.silent = 150.7

    assert drawn(client, runtime)[0]["silent"] == 150


def test_an_algorithm_without_cells_shows_its_nodes(client: Client, runtime: FixedRuntime):
    zone = (("topology.kubernetes.io/zone", "z"),)
    runtime.cache.set_node(Node(name="a", uid="1", labels=zone, allocatable=(("cpu", 4000),), ready=False))
    runtime.cache.assume(Pod(namespace="ns", name="p", uid="u", node_name="a", requests=(("cpu", 500),)))
    runtime.cache.add_pod(Pod(namespace="ns", name="q", uid="v", node_name="gone"))

    pieces = drawn(client, runtime)
    [nodes] = [piece["nodes"] for piece in pieces if "nodes" in piece]

    assert {"assumed": 1} in pieces
    assert nodes[0] == {
        "name": "a",
        "zone": "z",
        "known": True,
        "ready": False,
        "cordoned": False,
        "pods": 1,
        "room": {"cpu": [500, 4000], "pods": [1, 0]},
        "owners": [["ns", {"cpu": 500}]],
    }
    assert (nodes[1]["name"], nodes[1]["known"]) == ("gone", False)


def test_an_algorithm_with_cells_shows_those(client: Client, runtime: FixedRuntime):
    runtime.own_pages["cells"] = [b'[{"chains":[]}', b',{"chain":0,"machines":[]}', b"]"]

    assert drawn(client, runtime)[3:5] == [{"chains": []}, {"chain": 0, "machines": []}]


def test_only_what_changed_comes_again():
    runtime = FixedRuntime()
    for number in range(150):
        runtime.cache.set_node(Node(name=f"n{number:03}", uid=str(number)))
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        client = Client(server.url)
        first = client.get("/v1/inspect/map").json
        runtime.cache.set_node(Node(name="n120", uid="120", ready=False))
        second = {"pieces": {}}
        while not second["pieces"]:  # it is looked at once a second
            time.sleep(0.05)
            second = client.get(f"/v1/inspect/map?since={first['version']}").json

    assert first["size"] == second["size"] == 7
    [nodes] = [piece["nodes"] for piece in second["pieces"].values()]
    assert [node["name"] for node in nodes] == [f"n{number}" for number in range(100, 150)]


def test_much_is_compressed(client: Client):
    runtime = FixedRuntime()
    for number in range(100):
        runtime.cache.set_node(Node(name=f"n{number:03}", uid=str(number)))
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        answer = get(Client(server.url), "/v1/inspect/map", Accept_Encoding="gzip")

    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.body))["size"] == 6


def test_a_misspelt_parameter_is_refused(client: Client):
    assert client.get("/v1/inspect/map?sinse=1").status == 400


# -- who waits ------------------------------------------------------------------------------------------------


def waiting(*pods: PodView) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    head, *parts = [json.loads(piece) for piece in waiting_pieces(pods)]
    return head, [group for part in parts for group in part["waiting"]]


def test_pods_of_a_gang_are_one_line():
    pods = [PodView("ns", f"p{number}", str(number), "Waiting", reason=EXHAUSTED, priority=7) for number in range(3)]

    head, groups = waiting(*pods, PodView("ns", "other", "o", "Bound"))

    assert head == {"waitingGroups": 1, "waitingPods": 3}
    assert groups == [
        {
            "namespace": "ns",
            "name": "ns/g",
            "pods": 3,
            "preempting": 0,
            "priority": 7,
            "code": "CellsExhausted",
            "text": EXHAUSTED.text,
            "age": 0,
            "example": "p0",
        }
    ]


def test_a_gang_has_the_reason_of_most_of_its_pods():
    pods = [
        PodView("ns", "a", "1", "Waiting", gang="g"),
        PodView("ns", "b", "2", "Waiting", gang="g", reason=reason(Code.NO_NODE_FITS)),
        PodView("ns", "c", "3", "Preempting", gang="g", reason=reason(Code.NO_NODE_FITS)),
    ]

    _, [group] = waiting(*pods)

    assert (group["code"], group["example"], group["preempting"]) == ("NoNodeFits", "b", 1)


def test_an_age_changes_seldom():
    ages = [
        group["age"]
        for seconds in (0.0, 59.9, 60.0, 599.0, 4000.0, 1e9)
        for group in waiting(PodView("ns", "p", "1", "Waiting", since_seconds=seconds))[1]
    ]

    assert ages == [0, 0, 60, 60, 3600, 604800]


def test_of_very_many_groups_those_that_wait_longest_are_shown():
    pods = [
        PodView("ns", f"p{number:04}", str(number), "Waiting", since_seconds=3600.0 if number >= 500 else 0.0)
        for number in range(1500)
    ]

    head, groups = waiting(*pods)

    assert (head["waitingGroups"], len(groups)) == (1500, 1000)
    assert {group["name"] for group in groups} == {f"p{number:04}" for number in range(500, 1500)}
