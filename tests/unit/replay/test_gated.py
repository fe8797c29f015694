"""Pods with a scheduling gate at a moment: all that the log tells of, and a sentence where it cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from algorithm.model import Pod, PodKey
from extender.operate.replay_look import UnknownPodError, explained, look_text, pages
from extender.operate.replay_steps import Session
from extender.recording.files import CHECKPOINT, LOG, name_of
from extender.recording.records import RecordingError
from extender.replay.frozen import freeze
from extender.replay.logs import Log, open_log
from extender.replay.moments import parse
from extender.replay.stepping import Stepper
from extender.scheduling.events import PodSeen
from extender.scheduling.policy import Policy
from tests.support.engine.objects import pod
from tests.support.engine.scripted_log import ScriptedLog, two_nodes

#: Events of a segment: with the three gated pods, checkpoints after events 6, 12 and 18.
EVERY = 6
UNKNOWN = "Pods with a scheduling gate that were last seen before event 7 are not known"


def gated(name: str) -> Pod:
    return replace(pod(name), gated=True)


def scripted() -> ScriptedLog:
    """Events 1 to 3 are about the pods early, freed and gone; event 20 about late."""
    log = ScriptedLog()
    for name in ("early", "freed", "gone"):
        log.see(50.0, gated(name))
    for event, at, _ in two_nodes().steps:
        log.at(at, event)
    log.see(410.0, pod("freed"))
    log.see(420.0, gated("late"))
    log.end(430.0, gated("gone"))
    log.see(440.0, gated("early"))
    return log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return scripted().write_folder(tmp_path / "log", EVERY)


@pytest.fixture
def rest(folder: Path) -> Log:
    """What rotation has left."""
    (folder / name_of(1, LOG)).unlink()
    return open_log(folder)


def shown(log: Log, moment: str) -> dict[str, float]:
    frozen = freeze(log, parse(moment))
    held = frozen.gated.all(frozen.at)
    assert held.unknown == ""
    return {each.name: each.since_seconds for each in held.pods}


@pytest.mark.parametrize(
    ("moment", "names"),
    [
        ("2", "early freed"),
        ("15", "early freed gone"),
        ("20", "early gone"),
        ("21", "early gone late"),
        ("end", "early late"),
    ],
)
def test_they_are_the_same_with_and_without_checkpoints(moment: str, names: str, folder: Path, tmp_path: Path) -> None:
    one = shown(open_log(scripted().write(tmp_path / "one.log")), moment)

    assert sorted(one) == names.split()
    assert shown(open_log(folder), moment) == one


def test_how_long_counts_from_the_first_time_that_the_pod_was_seen_with_a_gate(folder: Path) -> None:
    assert shown(open_log(folder), "end") == {"early": 390.0, "late": 20.0}


def test_json_has_them_beside_the_pods_that_the_engine_keeps(folder: Path) -> None:
    found = pages(freeze(open_log(folder), parse("end")))

    assert [(each["name"], each["state"], each["reason"]) for each in found["heldBack"]] == [
        ("early", "Waiting", None),
        ("late", "Waiting", None),
    ]
    assert "scheduling gate" in found["heldBack"][0]["summary"]
    assert found["heldBackUnknown"] == ""
    assert "early" not in {each["name"] for each in found["pods"]}


def test_a_log_that_has_lost_its_first_events_says_what_cannot_be_known(rest: Log) -> None:
    frozen = freeze(rest, parse("21"))
    found = pages(frozen)

    assert [each["name"] for each in found["heldBack"]] == ["late"]
    assert found["heldBackUnknown"].startswith(UNKNOWN)
    assert UNKNOWN in look_text(frozen)
    with pytest.raises(UnknownPodError, match=UNKNOWN):
        explained(frozen, "default", "early")
    assert [each["name"] for each in pages(freeze(rest, parse("end")))["heldBack"]] == ["early", "late"]


def test_a_part_that_cannot_be_read_is_like_one_that_is_missing(folder: Path) -> None:
    damaged = folder / name_of(2, LOG)
    damaged.write_bytes(damaged.read_bytes()[: -(damaged.stat().st_size // 10)])
    frozen = freeze(open_log(folder), parse("21"))

    held = frozen.gated.all(frozen.at)
    assert [each.name for each in held.pods] == ["late"]
    assert "before event 13 are not known" in held.unknown


def test_a_step_explains_a_pod_that_was_gated_before_the_checkpoint(folder: Path) -> None:
    said: list[str] = []
    Session(Stepper(open_log(folder), 20), said.append).run(["p early"])
    assert "scheduling gate" in said[0]


def test_a_joined_segment_is_read_after_its_checkpoint(folder: Path, tmp_path: Path) -> None:
    joined = tmp_path / "one.gz"
    parts = [folder / name_of(4, kind) for kind in (CHECKPOINT, LOG)]
    joined.write_bytes(b"".join(each.read_bytes() for each in parts))

    found = pages(freeze(open_log(joined), parse("end")))
    assert [each["name"] for each in found["heldBack"]] == ["early", "late"]
    assert "before event 19 " in found["heldBackUnknown"]


def test_pods_of_other_schedulers_are_not_held_back_by_anything_of_ours(tmp_path: Path) -> None:
    log = ScriptedLog()
    log.policy = Policy(scheduler_names=frozenset({"waggle"}))
    log.at(1.0, PodSeen(gated("other")))
    log.at(1.0, PodSeen(replace(gated("own"), scheduler_name="waggle")))

    assert list(shown(open_log(log.write(tmp_path / "waggle.log")), "end")) == ["own"]


def test_more_than_a_replay_may_hold_is_refused(tmp_path: Path) -> None:
    log = ScriptedLog()
    for number in range(2500):
        log.steps.append((PodSeen(gated(f"p{number}")), 1.0, []))
    opened = open_log(log.write(tmp_path / "waggle.log"))
    frozen = freeze(opened, parse("10"))
    assert frozen.gated.all(frozen.at).find(*PodKey("default", "p9")) is not None

    frozen = freeze(opened, parse("end"))
    opened.recording.most_mib = 1
    with pytest.raises(RecordingError, match="would hold more than 1 MiB"):
        frozen.gated.all(frozen.at)
