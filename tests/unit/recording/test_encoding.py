"""Lines of a log: every kind of event comes back, answers are kept or shortened, headers say what decides."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from algorithm.hived.formats.plainyaml import load
from algorithm.interface import SuggestedNodes
from algorithm.packing.gangs import MOST_MEMBERS
from algorithm.reasons import Code, FixedReasons, Reason, reason
from extender.core.outcomes import Outcome, OutcomeKind
from extender.recording import encoding
from extender.recording.constants import differences
from extender.recording.encoding import (
    LONGEST_OUT,
    LineReader,
    LineWriter,
    decode_header,
    digest_of,
    encode_instructions,
    header_of,
    instructions_of,
    unknown_fields,
)
from extender.recording.records import Header, RecordingError, Step, policy_of
from extender.scheduling.commands import PodRead, WriteBinding
from extender.scheduling.events import (
    DependenciesChanged,
    DependenciesForgotten,
    FilterAnswer,
    FilterRequested,
    PodGone,
    Synced,
)
from extender.scheduling.policy import Limits, Policy
from extender.scheduling.state.preemption_record import LONGEST_RECORD
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.logs import opened
from tests.support.engine.objects import node, pod


class Recorded(EngineHarness):
    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.outs: list[bytes] = []
        self.writer = LineWriter()
        self.events: list[Any] = []
        super().__init__()

    def handle(self, event):
        out = super().handle(event)
        self.events.append(event)
        self.outs.append(encode_instructions(out))
        self.lines.append(self.writer.event(self.machine.sequence, self.now, event, out))
        return out


def a_busy_day(engine: EngineHarness) -> None:
    engine.see(node("a"), node("b"), pod("low", cpu=4000, on="b"))
    p, q = pod("p", annotations=(("é", "ü"),)), pod("q", cpu=3000, priority=7)
    engine.filter(p, "a", "b")
    write = only(engine.bind(p, "a"), WriteBinding)
    read = engine.finish(write.token, OutcomeKind.UNKNOWN)[0]
    engine.read(read.token, pod("p", on="a"))
    engine.filter(q, "b")
    engine.preempt(q, "b")
    engine.handle(PodGone("default", "low", "uid-low"))
    engine.filter(q, "b")
    engine.tick(61)
    engine.handle(PodRead(99, Outcome(OutcomeKind.THROTTLED, "slow down", 1.5), None))
    engine.handle(DependenciesChanged("uid-q", reason(Code.WAITS_FOR_DEPENDENCY, dependencies="p")))
    engine.handle(DependenciesForgotten("uid-q"))


def test_events_and_answers_come_back() -> None:
    engine, reader = Recorded(), LineReader()
    a_busy_day(engine)
    steps = [reader.read(line.rstrip(b"\n")) for line in engine.lines]
    assert all(isinstance(step, Step) for step in steps)
    assert [step.event for step in steps] == engine.events
    assert [step.said.text for step in steps] == engine.outs
    assert [step.size for step in steps] == [len(line) for line in engine.lines]
    assert any(len(msgspec.json.decode(out)) > 1 for out in engine.outs)


def test_a_step_of_another_log_is_written_as_it_was() -> None:
    engine, reader, again = Recorded(), LineReader(), LineWriter()
    a_busy_day(engine)
    for line in engine.lines:
        assert again.recorded(reader.read(line.rstrip(b"\n"))) == line


def test_every_kind_of_event_is_known() -> None:
    assert len(encoding._EVENTS) == 20
    assert LineReader().read(b'{"at":1.0,"event":"Synced","data":{}}') == Step(1.0, Synced(), size=38)


@pytest.mark.parametrize("at", [b"1e308", b"-4e10", b"3e11"])
def test_a_time_of_no_date_is_refused(at: bytes) -> None:
    with pytest.raises(RecordingError, match=r"\$\.at"):
        LineReader().read(b'{"at":' + at + b',"event":"Synced","data":{}}')
    with pytest.raises(RecordingError, match=r"\$\.epoch"):
        decode_header(b'{"waggle":2,"algorithm":"a","settings":{},"policy":{},"epoch":' + at + b"}", "log")


@pytest.mark.parametrize("out", [b"[5]", b"{}", b"[[{},{}]]", b'[["Evict",1e999]]', b'[["Evict",{"name":"\xf2"}]]'])
@pytest.mark.parametrize("line", [b'{"event":"Synced","data":{},"out":%s}', b'{"answer":3,"out":%s}'])
def test_an_answer_that_cannot_be_read_is_refused(line: bytes, out: bytes) -> None:
    with pytest.raises(RecordingError, match="no event: "):
        LineReader().read(line % out)


def test_a_reason_without_its_parameter_is_refused() -> None:
    why = b'{"code":"WaitsForDependency","params":[["dependency","p"]]}'
    with pytest.raises(RecordingError, match="the reason WaitsForDependency lacks the parameter 'dependencies'"):
        LineReader().read(b'{"event":"DependenciesChanged","data":{"uid":"u","reason":' + why + b"}}")


# -- answers ----------------------------------------------------------------------------------------------------------


def refusal(reasons: Mapping[str, Reason]) -> FilterAnswer:
    return FilterAnswer(reason=reason(Code.NO_NODE_FITS), nodes=reasons)


ASKED = FilterRequested(pod("p"), SuggestedNodes(["a"]))


def test_an_answer_for_thousands_of_nodes_is_shortened_with_its_digest() -> None:
    answer = refusal({f"n{number:04}": reason(Code.NODE_NOT_READY) for number in range(5000)})
    line = LineWriter().event(1, 1.0, ASKED, [answer])
    assert len(line) < 1500
    said = LineReader().read(line.rstrip(b"\n")).said
    assert said.digest == digest_of(encode_instructions([answer]))
    (shown,) = instructions_of(said.text)
    assert (shown.reason, list(shown.nodes)) == (answer.reason, ["n0000", "n0001", "n0002"])
    assert b'"...":"4997 more"' in said.text


def test_an_answer_that_is_the_same_object_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LineWriter()
    reasons = FixedReasons({f"n{number:04}": reason(Code.NODE_NOT_READY) for number in range(5000)})
    first = writer.event(1, 1.0, ASKED, [refusal(reasons)])
    monkeypatch.setattr(encoding, "encode_instructions", None)
    again = writer.event(1, 1.0, ASKED, [refusal(reasons)])
    assert again[again.index(b'"out"') :] == first[first.index(b'"out"') :]


def test_a_long_answer_of_another_kind_is_cut_and_compared_by_its_digest() -> None:
    write = WriteBinding(7, "default", "p", "uid-p", "n1", (("decision", "x" * 2 * LONGEST_OUT),))
    said = LineReader().read(LineWriter().event(1, 1.0, ASKED, [write]).rstrip(b"\n")).said
    assert said.digest == digest_of(encode_instructions([write]))
    assert len(said.text) < 2 * LONGEST_OUT
    assert instructions_of(said.text) == []


def test_an_event_without_an_answer_and_its_answer_later() -> None:
    writer, reader = LineWriter(), LineReader()
    assert reader.read(writer.event(1, 1.0, ASKED, None).rstrip(b"\n")).said is None
    answer = reader.read(writer.answer(1, [FilterAnswer(node="a")]).rstrip(b"\n"))
    assert (answer.number, answer.said.text) == (1, encode_instructions([FilterAnswer(node="a")]))
    assert reader.read(writer.event(2, 1.0, Synced(), "KeyError: 'a'").rstrip(b"\n")).said.failed == "KeyError: 'a'"


# -- what decides is in the head --------------------------------------------------------------------------------------


def head(**changed: object) -> Header:
    policy = Policy(limits=Limits(gather=7.0), patience=3.0)
    text = LineWriter().header(header_of("packing", {}, policy))
    return msgspec.structs.replace(decode_header(text, "log"), **changed)


def test_a_replay_uses_the_recorded_policy_and_limits() -> None:
    assert policy_of(head()) == Policy(limits=Limits(gather=7.0), patience=3.0)


def test_what_an_older_policy_does_not_have_is_what_that_release_did() -> None:
    """It tried no pod again for which room was kept."""
    assert policy_of(head(policy={"patience": 3.0})) == Policy(patience=3.0, limits=Limits(unasked=0.0))
    assert policy_of(head(policy={"limits": {"gather": 7.0}})).limits == Limits(gather=7.0, unasked=0.0)
    assert policy_of(head(policy={"limits": {"unasked": 7.0}})).limits == Limits(unasked=7.0)


def test_a_recording_with_an_older_name_in_its_policy_is_read() -> None:
    assert policy_of(head(policy={"protection": 7.0})).eviction_backoff == 7.0


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        *(({"mercy": 1.0}, "mercy"), ({"limits": {"mercy": 1}}, "mercy")),
        *(({"lease": "long"}, "lease"), ({"limits": [1]}, "limits")),
    ],
)
def test_a_policy_that_this_program_does_not_know_is_named(policy: dict[str, object], said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        policy_of(head(policy=policy))


def test_the_constants_of_engine_and_algorithm_are_in_the_head() -> None:
    found = head().constants
    assert found["algorithm.packing.gangs.MOST_MEMBERS"] == MOST_MEMBERS
    assert found["extender.scheduling.state.preemption_record.LONGEST_RECORD"] == LONGEST_RECORD
    assert not any(name.startswith("algorithm.hived") for name in found)


def test_constants_that_differ_are_named() -> None:
    known = {
        "algorithm.packing.gangs.MOST_MEMBERS": 7,
        "algorithm.packing.gone.MOST": 1,
        "algorithm.packing.gangs.OLD": 1,
    }
    assert differences(known, "packing") == [
        f"algorithm.packing.gangs.MOST_MEMBERS was 7, and is {MOST_MEMBERS} now",
        "algorithm.packing.gone.MOST was 1, and is not there any more",
        "algorithm.packing.gangs.OLD was 1, and is not there any more",
    ]


def test_a_log_names_no_module_that_is_then_imported() -> None:
    assert "this" not in sys.modules
    known = {"this.ZEN": 1, "algorithm.hived.journal.MOST": 1, "algorithm.packing.__main__.MOST": 1}
    assert [each.partition(" ")[0] for each in differences(known, "packing")] == list(known)
    assert "this" not in sys.modules, "its import prints a poem; another one could do anything"


def test_the_fields_of_records_are_in_the_head_and_unknown_ones_are_named() -> None:
    found = head().fields
    assert {"Pod", "Node", "Taint", "Outcome", "Reason", "FilterRequested"} <= found.keys()
    assert unknown_fields(head()) == []
    assert unknown_fields(head(fields={"Pod": ["name", "mood"], "Star": ["colour"]})) == ["Pod.mood"]


def test_settings_from_a_file_of_the_algorithms_own_are_recorded(tmp_path: Path) -> None:
    settings = load("cells: [{cellAddress: 08, cellNumber: 2}]")
    text = LineWriter().header(header_of("hived", settings, Policy(scheduler_names=frozenset())))
    recording = opened(text, tmp_path)
    assert recording.header.settings == {"cells": [{"cellAddress": "08", "cellNumber": "2"}]}
