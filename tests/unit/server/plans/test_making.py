"""From an order to its answer, without processes: what is asked for, and what the answer is made of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from algorithm.model import Node, Pod
from extender.server.plans import making
from extender.server.plans.frames import Answer, Channel, Live, Message, Needs, Nodes, Objects, Order, Pods, Sent
from extender.server.plans.making import answer_to

NODE = Node(name="n0", allocatable=(("cpu", 4000), ("memory", 1 << 34), ("pods", 110)))
EVIL = {"waggle.dev/gang": "evil\x1b[2J\u202egang"}


class Server(Channel):
    """The server, as the child sees it: for each Needs it sends the next of `parts`, and then that it is done."""

    def __init__(self, *parts: Sequence[Message]) -> None:
        self.needs: list[Needs] = []
        self._parts, self._queue = list(parts), list[Message]()

    def send(self, message: Message) -> None:
        assert isinstance(message, Needs)
        self.needs.append(message)
        self._queue += [*(self._parts.pop(0) if self._parts else ()), Sent()]

    def receive(self) -> Message:
        return self._queue.pop(0)


def pod(name: str, *, cpu: str = "1", node: str = "", **metadata: object) -> dict[str, object]:
    resources = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x", "resources": resources}]},
        "status": {"phase": "Running" if node else "Pending"},
    }


def live(*pods: dict[str, object]) -> Live:
    return Live(msgspec.json.encode({"items": pods}))


def ask(server: Server, form: str = "json", **body: object) -> Answer:
    return answer_to(Order(body=msgspec.json.encode(body), format=form), server)


def rows(answer: Answer) -> dict[str, tuple[str, str]]:
    assert not answer.error, answer
    return {row["name"]: (row["sign"], row["node"]) for row in msgspec.json.decode(answer.body)["plan"]["rows"]}


def test_a_pod_of_the_copy_that_was_also_read_counts_once_and_where_the_copy_says() -> None:
    bound = Pod(namespace="default", name="a", uid="a", node_name="n0", requests=(("cpu", 3000),), phase="Running")
    server = Server([live(pod("a", cpu="3"), pod("b", cpu="2")), Nodes((NODE,)), Pods((bound,))])
    assert rows(ask(server)) == {"b": ("?", "")}


def test_what_waiting_pods_wait_for_is_asked_for() -> None:
    waits = pod("b", annotations={"waggle.dev/after": '[{"kind": "Job", "name": "a", "state": "Ready"}]'})
    server = Server([live(waits), Nodes((NODE,))])
    answer = ask(server)
    assert not answer.error
    assert [needs.selected for needs in server.needs] == [(), (("default", "batch.kubernetes.io/job-name=a"),)]


def test_an_evicted_pod_is_read_in_full_and_made_again_if_something_owns_it() -> None:
    bound = Pod(namespace="default", name="old", uid="old", node_name="n0", requests=(("cpu", 3000),), phase="Running")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "j", "controller": True}
    other = msgspec.structs.replace(NODE, name="n1", allocatable=(("cpu", 3000), ("memory", 1 << 34), ("pods", 110)))
    urgent = pod("urgent", cpu="4")
    urgent["spec"] = {**urgent["spec"], "priority": 1000}  # type: ignore[dict-item]
    server = Server(
        [live(urgent), Nodes((NODE, other)), Pods((bound,))],
        [live(pod("old", cpu="3", node="n0", ownerReferences=[owner]))],
    )
    found = rows(ask(server))
    assert [needs.nodes for needs in server.needs] == [(), ("n0",)]
    assert found["urgent"] == ("+", "n0")
    assert ("~", "n1") in found.values()


def test_objects_that_cannot_be_read_are_named() -> None:
    broken = Objects("Deployment", "apps/v1", b'{"items": [{"metadata": 3}]}')
    answer = ask(Server([broken, Nodes((NODE,))]))
    assert any("Deployment" in each for each in msgspec.json.decode(answer.body)["plan"]["warnings"])


def test_claims_are_planned_and_pools_of_the_cluster_are_said_not_to_be_known() -> None:
    claim = {
        "apiVersion": "waggle.dev/v1alpha1",
        "kind": "Claim",
        "metadata": {"name": "c"},
        "spec": {"poolRef": {"name": "p"}},
    }
    answer = ask(Server([Nodes((NODE,))]), objects=[claim])
    assert rows(answer) == {"c": ("?", "")}
    assert any("pools, claims and vpods" in each for each in msgspec.json.decode(answer.body)["plan"]["warnings"])
    without = ask(Server([Nodes((NODE,))]), objects=[pod("new")])
    assert not any("vpods" in each for each in msgspec.json.decode(without.body)["plan"]["warnings"])


def test_the_budget_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "MOST_ANSWER", 10)
    answer = ask(Server([Nodes((NODE,))]))
    assert (answer.status, answer.code) == (422, "PlanTooLarge")


@pytest.mark.parametrize("form", ["text", "markdown", "svg", "dot"])
def test_no_format_moves_a_cursor(form: str) -> None:
    answer = ask(Server([Nodes((NODE,))]), form, objects=[pod("a", annotations=EVIL)], compare=True, cordon=["n0"])
    assert not answer.error
    text = answer.body.decode()
    assert "a" in text
    assert not set(text) & {"\x1b", "\u202e"}


def test_the_same_order_gives_the_same_answer() -> None:
    def once() -> bytes:
        objects = [pod(f"p{number}") for number in range(5)]
        return ask(Server([Nodes((NODE,))]), objects=objects, seed=7, graph=True).body

    assert once() == once()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"drain": ["x"]}, "drain"),
        ({"cordon": ["x"]}, "cordon"),
        ({"delete": ["Node/x"]}, "delete"),
        ({"priorities": {"Pod/x": 5}}, "priorities"),
    ],
)
def test_what_the_cluster_has_not_is_refused_by_its_field(body: dict[str, object], field: str) -> None:
    answer = ask(Server([Nodes((NODE,))]), **body)
    assert (answer.status, answer.field) == (400, field), answer.error
