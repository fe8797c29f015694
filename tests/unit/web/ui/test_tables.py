"""Tables by the page: filters, order, bounds, and how their cost grows."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from extender.server.rows import PodRow
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from extender.web.ui.tables import LONGEST_PAGE, MOST_CHOICES, GroupsWanted, PodsWanted, Tables
from tests.support.effort import effort
from tests.support.http.fixed_runtime import Client, FixedRuntime

NOW = 1_767_225_600.0 + 3600  # 2026-01-01T01:00:00Z


def row(name: str, **fields: Any) -> PodRow:
    plain = PodRow("ns", name, "Waiting", "", "NoNodeFits", "", "", 0, 0, "2026-01-01T00:00:00Z")
    return plain._replace(**fields)


def placed(name: str, node: str, **fields: Any) -> PodRow:
    return row(name, state="Bound", node=node, code="", **fields)


class Source:
    def __init__(self, *rows: PodRow) -> None:
        self.rows, self.reads, self.now = list(rows), 0, 0.0
        self.tables = Tables(self.read, clock=lambda: self.now, wall=lambda: NOW)

    def read(self) -> list[PodRow]:
        self.reads += 1
        return self.rows

    def pods(self, **wanted: Any) -> list[str]:
        return [item["name"] for item in self.tables.pods(PodsWanted(**wanted))["items"]]

    def groups(self, **wanted: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.tables.groups(GroupsWanted(**wanted))["items"]
        return items


def test_pods_are_found_by_parts_of_their_names() -> None:
    source = Source(row("Train-0", group="big"), placed("serve", "gpu-01"), row("x", namespace="team-a"))

    assert source.pods(find="TRAIN") == ["Train-0"]
    assert source.pods(find=" big ") == ["Train-0"]
    assert source.pods(find="gpu-0") == ["serve"]
    assert source.pods(find="team-a/x") == ["x"]
    assert source.pods(find=".*") == []


def test_pods_are_filtered() -> None:
    source = Source(row("a", tenant="t"), placed("b", "n", tenant="u"), row("c", namespace="other", tenant="t"))

    assert source.pods(namespace="ns") == ["a", "b"]
    assert source.pods(tenant="t") == ["a", "c"]
    assert source.pods(state="Bound") == ["b"]
    assert source.pods(state="Waiting", namespace="ns", tenant="t", find="a") == ["a"]


def test_pods_are_sorted_and_equal_ones_by_name() -> None:
    source = Source(
        row("b", priority=1, created="2026-01-01T00:00:05Z"),
        row("a", priority=1, created="2026-01-01T00:00:09Z"),
        row("c", priority=9, created="2026-01-01T00:00:01Z"),
    )

    assert source.pods() == ["a", "b", "c"]
    assert source.pods(order="priority") == ["a", "b", "c"]
    assert source.pods(order="priority", descending=True) == ["c", "a", "b"]
    assert source.pods(order="age") == ["a", "b", "c"]  # the youngest first
    assert source.pods(order="age", descending=True) == ["c", "b", "a"]


def test_pages_follow_each_other() -> None:
    source = Source(*(row(f"p{number:03}") for number in range(120)))

    answer = source.tables.pods(PodsWanted(offset=100, limit=50))

    assert [item["name"] for item in answer["items"]] == [f"p{number}" for number in range(100, 120)]
    assert (answer["total"], answer["matching"], answer["offset"]) == (120, 120, 100)
    assert source.pods(offset=10_000) == []


def test_an_age_is_in_seconds_and_unknown_where_the_text_is_no_time() -> None:
    source = Source(
        row("a"), row("b", created=""), row("c", created="nonsense"), row("d", created="2027-01-01T00:00:00Z")
    )

    ages = [item["age"] for item in source.tables.pods(PodsWanted())["items"]]

    assert ages == [3600, None, None, 0]


def test_a_group_is_one_row() -> None:
    source = Source(
        placed("p0", "n0", group="g", tenant="t", devices=8, priority=1),
        placed("p1", "n0", group="g", tenant="t", devices=8, created="2026-01-01T00:30:00Z"),
        row("p2", group="g", tenant="t", devices=8, code="GangDoesNotFit"),
        row("p3", group="g", tenant="t", state="Preempting", code="GangDoesNotFit"),
        placed("p4", "n2", group="g", tenant="t", devices=8)._replace(state="Binding"),
        row("p0", namespace="other", group="g"),
        placed("single", "n1"),
    )

    first, *others = source.groups(namespace="ns")

    assert first == {
        "namespace": "ns",
        "name": "g",
        "tenant": "t",
        "alone": False,
        "pods": 5,
        "running": 2,
        "binding": 1,
        "waiting": 1,
        "preempting": 1,
        "devices": 24,
        "nodes": 2,
        "priority": 1,
        "code": "GangDoesNotFit",
        "example": "p2",
        "age": 3600,
    }
    assert [(each["name"], each["alone"], each["example"]) for each in others] == [("single", True, "single")]


def test_groups_are_filtered_and_sorted() -> None:
    source = Source(
        placed("a", "n", devices=1),
        placed("b0", "n", group="b", devices=8),
        row("b1", group="b", devices=8),
        row("c", tenant="t"),
        placed("d", "n")._replace(state="Binding"),
    )

    def names(**wanted: Any) -> list[str]:
        return [each["name"] for each in source.groups(**wanted)]

    assert names(state="running") == ["a", "b"]
    assert names(state="waiting") == ["b", "c"]
    assert names(order="devices", descending=True) == ["b", "a", "c", "d"]
    assert names(tenant="t") == ["c"]
    assert names(find="ns/b") == ["b"]


def test_namespaces_to_choose_from_are_those_with_most_pods() -> None:
    many = [row("p", namespace=f"ns{number:03}") for number in range(MOST_CHOICES)]
    answer = Source(*many, row("p", namespace="zz"), row("q", namespace="zz", tenant="t")).tables.pods(PodsWanted())

    assert len(answer["namespaces"]) == MOST_CHOICES
    assert "zz" in answer["namespaces"]
    assert answer["tenants"] == ["t"]


def test_however_many_ask_pods_are_read_seldom() -> None:
    source = Source(row("a"))
    for number in range(50):
        source.pods(find=str(number))
        source.groups(offset=number)
    assert source.reads == 1
    source.now = 2.5
    source.pods()
    assert source.reads == 2


def test_an_answer_does_not_grow_with_the_cluster() -> None:
    def size(pods: int) -> int:
        return len(str(Source(*(row(f"p{number:05}") for number in range(pods))).tables.pods(PodsWanted(limit=50))))

    assert size(20_000) < size(200) + 20


def test_the_cost_grows_no_faster_than_the_pods() -> None:
    def cost(pods: int) -> int:
        source = Source(*(row(f"p{number}", group=f"g{number // 8}" if number % 2 else "") for number in range(pods)))

        def look() -> None:
            source.pods(find="p1", order="age")
            source.groups(state="waiting", order="devices", descending=True)

        return effort(look)

    assert cost(2000) < 2.2 * cost(1000)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=100000", "limit"),
        ("limit=0", "limit"),
        ("offset=-1", "offset"),
        ("order=uid", "order"),
        ("state=Gone", "state"),
        ("find=" + "x" * 201, "find"),
        ("nmaespace=a", "nmaespace"),
    ],
)
def test_a_wrong_parameter_is_named(client: Client, query: str, field: str) -> None:
    answer = client.get(f"/v1/inspect/table/pods?{query}")
    assert (answer.status, answer.json["field"]) == (400, field)


def test_over_http() -> None:
    runtime = FixedRuntime()
    runtime.pod_rows = [placed("a", "n", group="<b>"), row("b")]
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        client = Client(server.url)
        assert [item["name"] for item in client.get("/v1/inspect/table/pods?state=Bound").json["items"]] == ["a"]
        groups = client.get(f"/v1/inspect/table/groups?limit={LONGEST_PAGE}&order=running&descending=true").json
        assert [item["name"] for item in groups["items"]] == ["<b>", "b"]
        with closing(client.connect()) as connection:
            connection.request("GET", "/v1/inspect/table/pods?limit=200", headers={"Accept-Encoding": "gzip"})
            assert connection.getresponse().status == 200
