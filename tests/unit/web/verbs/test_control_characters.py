"""Names with control characters, which no object of Kubernetes can have: every verb refuses them, with the field."""

from __future__ import annotations

import pytest

from algorithm.reasons import Code, reason
from extender.scheduling.events import PreemptAnswer
from tests.support.http.fixed_runtime import Client, FixedRuntime

#: As JSON writes them.
CONTROL = [r"\u0000", r"\u001b[2J", r"\n", r"\u202e"]
POD_FIELDS = ["name", "namespace", "uid"]


def body_of(verb: str, **given: str) -> bytes:
    """A body whose names are `given`, in JSON."""
    names = {"name": "p", "namespace": "ns", "uid": "u", "node": "n0"} | given
    pod = '{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}"}},"spec":{{}}}}'.format(**names)
    match verb:
        case "bind":
            text = '{{"PodName":"{name}","PodNamespace":"{namespace}","PodUID":"{uid}","Node":"{node}"}}'.format(
                **names
            )
        case "preempt":
            text = '{{"Pod":{},"NodeNameToMetaVictims":{{"{}":{{"Pods":[{{"UID":"v"}}]}}}}}}'.format(pod, names["node"])
        case _:
            text = '{{"Pod":{},"NodeNames":["{}"]}}'.format(pod, names["node"])
    return text.encode()


@pytest.mark.parametrize("control", CONTROL)
@pytest.mark.parametrize("field", POD_FIELDS)
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
def test_a_pod_of_such_a_name_is_refused(
    client: Client, runtime: FixedRuntime, verb: str, field: str, control: str
) -> None:
    answer = client.post(f"/{verb}", body_of(verb, **{field: "x" + control}))
    bind = {"name": "PodName", "namespace": "PodNamespace", "uid": "PodUID"}
    path = bind[field] if verb == "bind" else f"Pod.metadata.{field}"
    text = answer.json["Error"] if verb in ("filter", "bind") else answer.json["error"]
    assert answer.status == (200 if verb in ("filter", "bind") else 400)
    assert text.startswith(f"{path} has control characters: 'x\\")
    if answer.status == 400:
        assert answer.json["field"] == path
    assert not runtime.asked


@pytest.mark.parametrize("control", CONTROL)
def test_so_is_a_node_for_preempt_and_bind(client: Client, runtime: FixedRuntime, control: str) -> None:
    answer = client.post("/preempt", body_of("preempt", node="x" + control))
    assert answer.status == 400
    assert answer.json["error"].startswith("NodeNameToMetaVictims[x\\")
    assert client.post("/bind", body_of("bind", node="x" + control)).json["Error"].startswith("Node has control")
    assert not runtime.asked


@pytest.mark.parametrize("verb", ["prioritize", "preempt"])
def test_half_a_character_is_no_json(client: Client, runtime: FixedRuntime, verb: str) -> None:
    answer = client.post(f"/{verb}", body_of(verb, name=r"x\ud800"))
    assert (answer.status, answer.json["field"]) == (400, "body")
    assert not runtime.asked


def test_names_of_any_alphabet_are_served(client: Client, runtime: FixedRuntime) -> None:
    assert client.post("/filter", body_of("filter", name=r"\u00fcber")).json["Error"] == ""
    assert runtime.asked


def test_a_uid_of_another_pod_is_the_callers_mistake(client: Client, runtime: FixedRuntime) -> None:
    text = "UID u belongs to ns/q, not to ns/p"
    runtime.preempt_answer = PreemptAnswer(reason=reason(Code.BAD_REQUEST, detail=text), error=True)
    answer = client.post("/preempt", body_of("preempt"))
    assert (answer.status, answer.json["error"], answer.json["field"]) == (400, text, "Pod.metadata.uid")
