"""Nothing that Waggle decides has changed since its recordings were frozen: replayed, and simulated once more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from algorithm.hived import HivedAlgorithm
from algorithm.model import Pod
from algorithm.packing import PackingAlgorithm
from extender.scheduling.policy import Policy
from tests.frozen import recording, words
from tests.frozen.plain import KIND, line_of
from tests.frozen.worlds import RUNS, Run

#: In `make test` those of each algorithm that are quick to simulate; the slow tests have the others.
QUICK = (2, 10)
SOME = [pytest.param(run, marks=[] if run.seed in QUICK else pytest.mark.slow, id=run.name) for run in RUNS]


@pytest.mark.parametrize("run", SOME)
def test_recorded_events_cause_the_recorded_instructions(run: Run) -> None:
    then = recording.read(run.name)
    differs = recording.difference(run.name, then, recording.replay(then))
    assert not differs, differs


@pytest.mark.parametrize("run", SOME)
def test_a_simulation_takes_its_recorded_course(run: Run) -> None:
    differs = recording.difference(run.name, recording.read(run.name), run.record())
    assert not differs, differs


def test_the_recordings_are_those_of_the_runs_and_stay_small() -> None:
    files = {path.name: path.stat().st_size for path in recording.FOLDER.iterdir()}
    assert files.keys() == {f"{run.name}.jsonl.gz" for run in RUNS}
    assert sum(files.values()) < 1_000_000


def test_all_that_can_happen_is_in_the_recordings() -> None:
    """Every event, every instruction and every outcome of a write, with each algorithm."""
    for algorithm in "packing", "hived":
        met: Counter[str] = Counter()
        for run in RUNS:
            if run.algorithm == algorithm:
                _count(recording.frozen(run.name), met)
        missing = {*_EVENTS, *_INSTRUCTIONS, *_OUTCOMES} - met.keys()
        assert not missing, f"{algorithm}: {sorted(missing)} never happens in {sorted(met)}"


_EVENTS = (
    *("FilterRequested", "PreemptRequested", "BindRequested", "Prioritize", "Explain", "NodeSeen", "PodSeen"),
    *("PodGone", "Synced", "TermBegan", "TermEnded", "BindFinished", "PodRead", "EvictFinished", "PreemptionRecorded"),
    *("Ticked", "ReconfigureRequested", "AlgorithmPrepared"),
)
_INSTRUCTIONS = (
    *("FilterAnswer", "PreemptAnswer", "BindAnswer", "PrioritizeAnswer", "Explanation", "WriteBinding", "ReadPod"),
    *("Evict", "RecordPreemption", "Nudge", "RecordEvent", "PrepareAlgorithm", "Reconfigured"),
)
_OUTCOMES = ("done", "gone", "stale", "lost", "throttled", "rejected", "unknown")


def _count(lines: list[recording.Line], met: Counter[str]) -> None:
    for line in lines:
        if "event" in line:
            met.update([line["event"][KIND], *(each[KIND] for each in line["out"])])
            met.update([line["event"]["outcome"]["kind"]] if "outcome" in line["event"] else [])


# -- it would be noticed ----------------------------------------------------------------------------------------------


def _replayed(name: str) -> str:
    then = recording.read(name)
    return recording.difference(name, then, recording.replay(then))


def test_a_changed_rule_of_the_engine_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that is being deleted would be given a place."""
    monkeypatch.setattr(Policy, "should_schedule", lambda self, pod: self.manages(pod) and not pod.gated)
    differs = _replayed("packing-2")
    assert "differs from its frozen recording in line" in differs
    assert "first at " in differs


@pytest.mark.parametrize(("name", "algorithm"), [("packing-2", PackingAlgorithm), ("hived-2", HivedAlgorithm)])
def test_a_changed_rule_of_an_algorithm_is_noticed(
    name: str, algorithm: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of the offered nodes is not looked at."""
    real = algorithm.schedule
    monkeypatch.setattr(algorithm, "schedule", lambda self, pod, nodes, *rest: real(self, pod, _fewer(nodes), *rest))
    assert "FilterRequested" in _replayed(name)


def _fewer(nodes: Any) -> Any:
    return type(nodes)(sorted(nodes)[:-1])


def test_another_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hold that lasts a second longer: the next wake-up is another one."""
    lines = recording.read("packing-10")
    changed = [{**line, "policy": {**line["policy"], "lease": 21.0}} if "born" in line else line for line in lines]
    differs = recording.difference("packing-10", lines[1:], list(recording.replay(changed))[1:])
    assert "first at due" in differs


# -- the table of words -----------------------------------------------------------------------------------------------

FROZEN = {
    KIND: "FilterAnswer",
    "reason": {KIND: "Reason", "code": "PodInvalid", "params": [["detail", "whoever asks, a"]]},
    "untouched": True,
}


def test_without_rows_the_recording_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "FIELDS", {})
    assert line_of(words.today(FROZEN)) == line_of(FROZEN)


def test_renamed_kinds_fields_and_texts_are_put_into_todays_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "KINDS", {"FilterAnswer": "FilterResult"})
    monkeypatch.setattr(words, "FIELDS", {"FilterAnswer": {"untouched": "pass_through"}})
    monkeypatch.setattr(words, "TEXTS", [(r"whoever asks, (\w)", r"the caller \1")])
    words._text.cache_clear()
    try:
        now = words.today(FROZEN)
    finally:
        words._text.cache_clear()
    assert now[KIND] == "FilterResult"
    assert now["pass_through"] is True
    assert now["reason"]["params"] == [["detail", "the caller a"]]


def test_what_is_gone_or_rebuilt_is_left_to_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "GONE", {"Reason": {"code"}})
    monkeypatch.setattr(words, "REBUILT", {"FilterAnswer": lambda old: {KIND: "Answer", "why": old["reason"]}})
    assert words.today(FROZEN) == {KIND: "Answer", "why": {KIND: "Reason", "params": [["detail", "whoever asks, a"]]}}


def test_an_event_that_todays_engine_does_not_know_in_full_is_noticed() -> None:
    """A renamed field without its row would be read as if it were empty."""
    lines = recording.read("packing-2")
    seen = next(line for line in lines if "event" in line and line["event"][KIND] == "PodSeen")
    seen["event"]["pod"]["tenant_name"] = seen["event"]["pod"].pop("name")
    with pytest.raises(msgspec.ValidationError, match="name"):
        list(recording.replay(lines))
    seen["event"]["pod"]["name"] = seen["event"]["pod"]["tenant_name"]
    assert "first at event.pod.tenant_name" in recording.difference("packing-2", lines, recording.replay(lines))


def test_a_pod_is_written_with_what_it_does_not_have_by_default() -> None:
    assert recording.plain(Pod(namespace="a", name="b", may_preempt=False)) == {
        KIND: "Pod",
        "grace_period": 30,
        "may_preempt": False,
        "name": "b",
        "namespace": "a",
        "phase": "Pending",
        "scheduler_name": "default-scheduler",
    }
