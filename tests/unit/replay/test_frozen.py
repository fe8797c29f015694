"""One moment of a recording: the events up to it count, and the clock stands still."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from algorithm.reasons import Code, reason
from extender.operate.replay_look import UnknownPodError, explanation_text, look_text
from extender.recording.records import RecordingError
from extender.replay.frozen import freeze
from extender.replay.logs import Log, open_log
from extender.replay.moments import MomentError, parse
from extender.scheduling.events import DependenciesChanged, PodGone, PodSeen
from tests.support.engine.lives import lives
from tests.support.engine.objects import pod
from tests.support.engine.scripted_log import ScriptedLog


def states(log: Log, moment: str) -> dict[str, tuple[str, str]]:
    return {view.name: (view.state, view.node) for view in freeze(log, parse(moment)).runtime.model.pods()}


def test_events_up_to_the_moment_count(log: Log):
    assert states(log, "+59s") == {}
    assert states(log, "+60s") == {"a": ("Binding", "n1")}
    assert states(log, "+61s") == {"a": ("Bound", "n1")}
    assert states(log, "+3m") == {"a": ("Bound", "n1"), "b": ("Bound", "n2"), "c": ("Waiting", "")}
    assert states(log, "end") == {"a": ("Bound", "n1"), "c": ("Waiting", "")}


def test_the_number_of_an_event_is_the_moment_right_after_it(log: Log):
    frozen = freeze(log, parse("5"))

    assert (frozen.number, frozen.at) == (5, 160.0)
    assert states(log, "5") == {"a": ("Binding", "n1")}


def test_the_clock_stands_at_the_moment_and_not_at_the_last_event_before_it(log: Log):
    model = freeze(log, parse("+4m10s")).runtime.model

    [view] = [view for view in model.pods() if view.name == "c"]
    assert view.since_seconds == 70.0
    assert model.explain("default", "c") == model.explain("default", "c")


def test_a_pod_is_explained_as_by_a_live_server(log: Log):
    found = freeze(log, parse("+4m")).runtime.model.explain("default", "c")

    assert found is not None
    assert found.pod.state == "Waiting"
    assert any("8 nvidia.com/gpu" in sentence for sentence in found.advice)


def test_the_last_hour_is_sampled_if_it_is_wanted(log: Log):
    assert freeze(log, parse("+5m")).runtime.model.usage.samples() == []

    samples = freeze(log, parse("+5m"), usage=True).runtime.model.usage.samples()
    assert [(sample.running, sample.waiting) for sample in samples] == [
        *((0, 0), (0, 0), (0, 0)),  # at 100, 130 and 160 s: a is being bound
        *((1, 0), (1, 0), (2, 0), (2, 1), (2, 1), (2, 1), (2, 1)),
        (1, 1),  # the moment
    ]
    assert freeze(log, parse("end"), usage=True).runtime.model.usage.samples() == samples
    assert freeze(log, parse("8"), usage=True).runtime.model.usage.samples()[:3] == samples[:3]


@pytest.mark.parametrize("moment", ["+5m1s", "17", "999999"])
def test_a_moment_after_the_end_is_refused_with_the_range_of_the_log(log: Log, moment: str):
    with pytest.raises(MomentError, match=r"is after the end of the log: it has 16 events, from \+0s to \+5m0s"):
        freeze(log, parse(moment))


def test_the_last_moment_of_the_log_is_in_it(log: Log):
    assert freeze(log, parse("+5m")).number == freeze(log, parse("16")).number == 16


def test_a_log_that_ends_before_its_first_event_is_refused(tmp_path: Path):
    empty = open_log(ScriptedLog().write(tmp_path / "empty.log"))

    with pytest.raises(RecordingError, match=r"empty.log: the log has no event"):
        freeze(empty, parse("end"))


def test_a_log_that_is_cut_can_be_looked_at_up_to_there(log: Log, tmp_path: Path):
    cut = tmp_path / "cut.log"
    cut.write_bytes(log.path.read_bytes()[:-40])

    assert freeze(open_log(cut), parse("15")).number == 15
    assert freeze(open_log(cut), parse("end")).number == 15


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
def test_a_moment_of_a_random_life_is_as_the_engine_was(algorithm: str, tmp_path: Path):
    life = lives(algorithm, seed=9)[0]
    path = tmp_path / "life.log"
    path.write_bytes(life.log)

    frozen = freeze(open_log(path), parse("end"))

    def shown(machine) -> list:
        return [(info.key, info.state, info.node, list(info.history)) for info in machine.pod_infos()]

    frozen.machine.validate()
    assert shown(frozen.machine) == shown(life.engine)


def test_a_pod_that_is_held_back_by_a_gate_is_shown_with_its_reason(tmp_path: Path):
    held, scripted = replace(pod("g"), gated=True), ScriptedLog()
    waits = reason(Code.WAITS_FOR_DEPENDENCY, dependencies="Job/default/load")
    scripted.at(10.0, PodSeen(held))
    scripted.at(20.0, DependenciesChanged(held.uid, waits, 1))
    scripted.at(30.0, PodGone(held.namespace, held.name, held.uid))
    log = open_log(scripted.write(tmp_path / "waggle.log"))

    assert "scheduling gate" in explanation_text(freeze(log, parse("1")), *held.key)
    frozen = freeze(log, parse("2"))
    found = frozen.gated.all(frozen.at).find(*held.key)
    assert found is not None
    assert (found.reason, found.pod.since_seconds) == (waits, 10.0)
    assert "Reason: WaitsForDependency" in explanation_text(frozen, *held.key)
    assert "Job/default/load" in look_text(frozen)
    with pytest.raises(UnknownPodError):
        explanation_text(freeze(log, parse("3")), *held.key)
