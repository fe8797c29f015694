"""What is written, and what becomes of writes that fail."""

from __future__ import annotations

import json

import msgspec
import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.ordering.events import TermBegun, TermEnded
from extender.ordering.records import GATE, PodKey
from extender.ordering.writes import gate, met, read
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.ordering.writes.met import MarkMet
from extender.ordering.writes.read import ReadPod
from tests.unit.ordering.world import World, pod, workload

KEY = PodKey("ml", "p")


def test_a_gate_is_removed_by_a_patch_that_tests_what_it_removes() -> None:
    request = gate.request(RemoveGate(token=1, key=KEY, uid="u", place=1))
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ml/pods/p")
    assert request.content_type == "application/json-patch+json"
    assert json.loads(request.body or b"") == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
        {"op": "add", "path": "/metadata/annotations/waggle.dev~1after-met", "value": "*"},
    ]


def test_a_pod_without_annotations_gets_the_map_of_them_first() -> None:
    request = gate.request(RemoveGate(token=1, key=KEY, uid="u", place=0, has_annotations=False))
    assert json.loads(request.body or b"")[3:] == [
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {"waggle.dev/after-met": "*"}},
    ]


def test_what_is_met_is_an_annotation_and_a_read_is_a_read() -> None:
    request = met.request(MarkMet(token=1, key=KEY, uid="u", met=("b", "a")))
    assert json.loads(request.body or b"") == {"metadata": {"annotations": {"waggle.dev/after-met": "a,b"}, "uid": "u"}}
    assert read.request(ReadPod(token=1, key=KEY, uid="u")).method == "GET"


def test_a_response_that_cannot_be_decoded_is_no_failure() -> None:
    write = RemoveGate(token=1, key=KEY, uid="u", place=0)
    done = Outcome(OutcomeKind.DONE)
    assert gate.report(write, done, b"nonsense") == GateRemoved(1, KEY, "u", done)


def world_with_a_write() -> World:
    world = World()
    world.holds = True
    world.put(workload("Job/a", complete=True), pod("p", "[job/a]"))
    assert [type(each) for each in world.writes] == [RemoveGate]
    return world


def fail(world: World, kind: OutcomeKind, **fields: float) -> None:
    write = world.writes.pop()
    world.send(GateRemoved(write.token, write.key, write.uid, Outcome(kind, **fields)))


@pytest.mark.parametrize("kind", [OutcomeKind.LOST, OutcomeKind.STALE, OutcomeKind.REJECTED, OutcomeKind.UNKNOWN])
def test_after_a_failure_the_pod_is_read_at_once_and_the_write_repeated(kind: OutcomeKind) -> None:
    world = world_with_a_write()
    fail(world, kind)
    assert [type(each) for each in world.writes] == [ReadPod]
    world.carry_out(world.writes.pop())
    assert [type(each) for each in world.writes] == [RemoveGate]
    fail(world, kind)
    assert not world.writes
    world.wait(2.1)
    assert [type(each) for each in world.writes] == [ReadPod]
    world.carry_out(world.writes.pop())
    world.wait(2.1)
    world.carry_out(world.writes.pop())
    assert world.pods["p"].gates == ()


def test_a_write_that_happened_unseen_is_found_out_by_reading() -> None:
    world = world_with_a_write()
    version = str(next(world.versions))
    changed = {"gates": (), "met": frozenset({"*"}), "version": version}
    world.pods["p"] = msgspec.structs.replace(world.pods["p"], **changed)
    fail(world, OutcomeKind.UNKNOWN)
    world.carry_out(world.writes.pop())
    world.wait(1000)
    assert not world.writes


def test_a_throttled_write_is_sent_again_when_the_api_server_says() -> None:
    world = world_with_a_write()
    fail(world, OutcomeKind.THROTTLED, retry_after=7.0)
    world.wait(6.9)
    assert not world.writes
    world.wait(0.1)
    assert [type(each) for each in world.writes] == [RemoveGate]


def test_a_pod_that_is_gone_is_forgotten() -> None:
    world = world_with_a_write()
    fail(world, OutcomeKind.GONE)
    world.wait(1000)
    assert not world.writes
    assert not world.engine.state.waiting


def test_a_gate_that_has_moved_is_removed_from_its_new_place() -> None:
    world = world_with_a_write()
    world.writes.clear()
    world.put(msgspec.structs.replace(world.pods["p"], gates=("other", GATE)))
    world.send(TermEnded(), TermBegun(2))
    write = world.writes.pop()
    assert isinstance(write, RemoveGate)
    assert (write.place, write.term) == (1, 2)


def test_a_term_that_ends_ends_its_writes() -> None:
    world = world_with_a_write()
    write = world.writes.pop()
    world.send(TermEnded())
    world.send(GateRemoved(write.token, write.key, write.uid, Outcome(OutcomeKind.UNKNOWN)))
    world.wait(1000)
    assert not world.writes
