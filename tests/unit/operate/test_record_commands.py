"""`waggle record show | cut | stats | anonymize`: what they print, what they write, and what they refuse."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.operate.record_stats import stats_of
from extender.recording.cutting import cut
from extender.recording.encoding import encode_instructions
from extender.recording.files import CHECKPOINT, LOG, name_of
from extender.recording.log import open_log
from extender.recording.records import RecordingError
from extender.recording.replaying import Replay, is_decision
from extender.replay.texts import decision_text
from extender.scheduling.events import Candidate, PodSeen, PreemptAnswer, PreemptRequested
from tests.support.engine.lives import Life, lives
from tests.support.engine.scripted_log import two_nodes
from tests.support.small_files import files_of_at_most


def record(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["record", *map(str, arguments)])


def said(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return two_nodes().write(tmp_path / "log")


@cache
def a_life(algorithm: str) -> Life:
    return max(lives(algorithm, 3), key=lambda life: len(life.heard))


# -- show -------------------------------------------------------------------------------------------------------------


def test_show_has_events_decisions_and_effects(log: Path) -> None:
    result = record("show", log)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "+0s  #1  node n1 seen: ready"
    assert "+1m0s  #5  filter default/a, 2 nodes offered" in lines
    assert "    -> placed on n1" in lines
    assert "       writes the binding of default/a to n1" in lines
    assert "+1m0.010s  #7  report: binding of default/a: done" in lines
    assert "    -> refused: NodeLacksResource: node never has enough nvidia.com/gpu" in lines


def numbers(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [json.loads(line)["number"] for line in result.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--from", "14"], [14, 15, 16]),
        (["--to", "#3"], [1, 2, 3]),
        (["--from", "+2m", "--to", "+2m"], [9, 10, 11]),
        (["--from", "15", "--to", "end"], [15, 16]),
        (["--pod", "default/c"], [14, 15]),
        (["--pod", "b"], [9, 10, 11, 12, 13, 16]),
        (["--pod", "default/nobody"], []),
        (["--decisions"], [5, 10, 15]),
        (["--decisions", "--pod", "c"], [15]),
    ],
)
def test_show_of_a_part(log: Path, options: list[str], shown: list[int]) -> None:
    assert numbers(record("show", log, "-o", "json", *options)) == shown


def test_a_pod_that_kube_scheduler_would_have_evicted_is_not_concerned_if_nothing_came_of_it(tmp_path: Path) -> None:
    script = two_nodes()
    running = next(event.pod for event, _, _ in script.steps if isinstance(event, PodSeen) and event.pod.name == "a")
    other = replace(running, name="other", uid="u-other", node_name="")
    script.see(200.0, other)
    out = script.at(201.0, PreemptRequested(other, (Candidate("n1", (running.uid,)),)))
    assert out[0] == PreemptAnswer(reason=out[0].reason)  # type: ignore[union-attr]
    log = script.write(tmp_path / "log")
    last = len(script.steps)
    assert last in numbers(record("show", log, "-o", "json", "--pod", "other"))
    assert last not in numbers(record("show", log, "-o", "json", "--pod", "a"))


def test_json_has_names_of_nodes_in_full(log: Path) -> None:
    lines = [json.loads(line) for line in record("show", log, "-o", "json").stdout.splitlines()]
    asked = [line["data"]["nodes"] for line in lines if line["event"] == "FilterRequested"]
    assert asked == [["n1", "n2"]] * 3
    assert lines[4]["out"][0][0] == "FilterAnswer"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--from", "yesterday"], "--from 'yesterday': expected a time like 2026-11-24T13:05:00Z"),
        (["--to", "2026-11-24T13:05:00"], "expected a time with its zone"),
        (["--to", "2026-11-24T13:05:00Z"], "this log does not know the time of day; write it like +10m"),
        (["--from", "+3m", "--to", "+2m"], "--from +3m is after --to +2m"),
        (["--from", "0"], "the first event has number 1"),
        (["--pod", "a/b/c"], "expected NAMESPACE/NAME"),
        (["--pod", "/c"], "expected NAMESPACE/NAME"),
        (["--run", "2"], "has 1 run of a server; there is no run 2"),
        (["--run", "0"], "--run"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_expected(log: Path, options: list[str], why: str) -> None:
    result = record("show", log, *options)
    assert result.exit_code == 2
    assert why in said(result)


def test_times_of_day_are_shown_and_understood(tmp_path: Path) -> None:
    text = two_nodes().write(tmp_path / "log").read_bytes().replace(b'"epoch":null', b'"epoch":1763989400.0', 1)
    (tmp_path / "log").write_bytes(text)
    result = record("show", tmp_path / "log", "--from", "2025-11-24T13:07:00Z", "--to", "2025-11-24T14:07:30+01:00")
    assert result.exit_code == 0
    assert result.stdout.startswith("2025-11-24T13:07:00.000Z  #9  pod default/b seen: Pending")
    assert "#13" in result.stdout
    assert "#14" not in result.stdout


def test_a_run_is_chosen_by_its_number(tmp_path: Path, log: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    text = log.read_bytes()
    (folder / "000001.waggle-log.gz").write_bytes(gzip.compress(text))
    one_event = b"".join(text.splitlines(keepends=True)[:2]).replace(b'"scripted"', b'"another"')
    (folder / "000002.waggle-log.gz").write_bytes(gzip.compress(one_event))
    assert numbers(record("show", folder, "-o", "json")) == [1]
    assert len(numbers(record("show", folder, "-o", "json", "--run", "1"))) == 16
    nothing = record("show", folder, "--pod", "default/a")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no event that was asked for concerns default/a in run 2 of 2; --run N shows another one" in nothing.stderr
    runs = [json.loads(record("stats", folder, "-o", "json", *run).stdout) for run in ([], ["--run", "1"])]
    assert runs[0][:1] == runs[1]
    assert len(runs[0]) == 2
    for command in ("cut", "anonymize"):
        assert "folder: run 2 of 2, the latest; --run N" in record(command, folder, tmp_path / command).stderr
        assert "run 2 of 2" not in record(command, folder, tmp_path / f"{command}-1", "--run", "1").stderr


# -- cut --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(begin=st.integers(1, 100), more=st.integers(0, 60))
def test_a_cut_anywhere_decides_as_the_whole(tmp_path_factory: Any, algorithm: str, begin: int, more: int) -> None:
    folder, life = tmp_path_factory.mktemp("cut"), a_life(algorithm)
    begin = min(begin, len(life.heard))
    end = min(begin + more, len(life.heard))
    (folder / "log").write_bytes(life.log)
    made = cut(
        open_log(folder / "log").recordings[0],
        lambda step: step.number < begin,
        lambda step: step.number > end,
        folder / "part.gz",
    )
    assert made.first <= begin
    assert made.last == end
    (part,) = open_log(folder / "part.gz").recordings
    played = list(Replay(part))
    assert [each.step.number for each in played] == list(range(made.first, end + 1))
    assert [encode_instructions(each.instructions) for each in played] == life.said[made.first - 1 : end]
    assert not [each for each in played if each.divergence]
    assert (part.ended, part.remarks) == (end, [])


def test_cut_says_what_it_wrote_and_its_file_is_private(log: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.gz"
    result = record("cut", log, part, "--from", "10", "--to", "+3m")
    assert result.exit_code == 0
    assert f"{part}: events #10 to #15, after a checkpoint of event #9;" in result.output
    assert part.stat().st_mode & 0o777 == 0o600
    again = tmp_path / "again.gz"
    assert "events #12 to #13, after" in record("cut", part, again, "--from", "12", "--to", "13").output
    assert CliRunner().invoke(app, ["replay", str(again)]).exit_code == 0


def test_cut_refuses_what_it_cannot_do_and_writes_nothing(log: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.gz"
    assert "there is no event between these moments" in said(record("cut", log, part, "--from", "+1h", "--to", "+2h"))
    assert not part.exists()
    part.write_text("something else")
    result = record("cut", log, part)
    assert (result.exit_code, part.read_text()) == (2, "something else")
    assert "is there already" in said(result)


@pytest.mark.parametrize("command", ["cut", "anonymize"])
def test_nothing_is_written_into_the_folder_of_a_recording(command: str, log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "000001.waggle-log.gz").write_bytes(gzip.compress(log.read_bytes()))
    result = record(command, folder, folder / "part.gz")
    assert result.exit_code == 2
    assert "part.gz: is in the folder of the recording" in said(result)
    assert [each.name for each in folder.iterdir()] == ["000001.waggle-log.gz"]


def test_a_cut_behind_a_divergence_is_refused(log: Path, tmp_path: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"node":"n1","reason"', b'"node":"n2","reason"', 1))
    with pytest.raises(RecordingError, match="this program decides differently at event 5, before the cut"):
        cut(open_log(log).recordings[0], lambda step: step.number < 10, lambda _: False, tmp_path / "part")
    assert not (tmp_path / "part").exists()


# -- stats ------------------------------------------------------------------------------------------------------------


def test_stats_count_events_bytes_pods_nodes_and_decisions(log: Path) -> None:
    result = record("stats", log, "-o", "json")
    (run,) = json.loads(result.stdout)
    assert (run["algorithm"], run["first"], run["last"], run["seconds"]) == ("packing", 1, 16, 300.0)
    assert (run["pods"], run["nodes"], run["lost"], run["segments"]) == (3, 2, 0, 1)
    assert run["kinds"]["FilterRequested"]["events"] == 3
    lines = log.read_bytes().splitlines(keepends=True)[1:]
    assert sum(each["bytes"] for each in run["kinds"].values()) == sum(map(len, lines))
    assert run["decisions"] == {"filter: placed": 2, "filter: refused, NodeLacksResource": 1}
    assert run["others"] == {"bind: done": 2}
    text = record("stats", log).output
    assert "16 events (#1 to #16) in 5m0s" in text
    assert "filter: refused, NodeLacksResource  1" in text


def test_stats_of_format_1_do_not_say_that_nothing_was_decided(log: Path, tmp_path: Path) -> None:
    head, *lines = map(json.loads, log.read_bytes().splitlines())
    kept = ("algorithm", "settings", "policy", "constants")
    old = [{"waggle": 1} | {name: head[name] for name in kept}]
    for line in lines:
        line.pop("out", None)
        if line["event"] == "FilterRequested":
            line["data"]["nodes"] = ["n1", "n2"]
        old.append(line)
    path = tmp_path / "old.log"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in old))
    said = record("stats", path).output
    assert "0 decisions" not in said
    assert "a log of format 1 has no answers: its decisions are not counted" in said


# -- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
def test_every_command_counts_the_same_decisions(algorithm: str, tmp_path: Path) -> None:
    """Those that `show` prints behind arrows, `stats` and `replay` count, and `--step` stops at."""
    (tmp_path / "log").write_bytes(a_life(algorithm).log)
    recording = open_log(tmp_path / "log").recordings[0]
    answers = [each for played in Replay(recording) for each in played.instructions]
    assert [each for each in answers if is_decision(each) != bool(decision_text(each))] == []
    count = sum(map(is_decision, answers))
    assert count > 5
    shown = [line for line in record("show", tmp_path / "log").stdout.splitlines() if line.startswith("    -> ")]
    (run,) = json.loads(record("stats", tmp_path / "log", "-o", "json").stdout)
    replayed = CliRunner().invoke(app, ["replay", str(tmp_path / "log")]).output
    assert (len(shown), sum(run["decisions"].values())) == (count, count)
    assert f"{count} decisions" in record("stats", tmp_path / "log").output
    assert f" {count} decisions, all the same" in replayed


# -- a folder that changes, and a full disk ---------------------------------------------------------------------------


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    """A folder whose first segment was deleted: it begins with the checkpoint of the second one."""
    folder = two_nodes().write_folder(tmp_path / "folder", 5)
    (folder / name_of(1, LOG)).unlink()
    return folder


def test_a_cut_before_the_first_checkpoint_says_from_where_on_it_is_possible(rotated: Path, tmp_path: Path) -> None:
    (rotated / name_of(2, CHECKPOINT)).unlink()
    refused = record("cut", rotated, tmp_path / "cut", "--from", "6")
    assert refused.exit_code == 2
    found = re.search(r"only what follows event ([0-9]+) can still be replayed", said(refused))
    assert found is not None, said(refused)
    written = record("cut", rotated, tmp_path / "cut", "--from", str(int(found[1]) + 1))
    assert written.exit_code == 0, said(written)


@pytest.mark.parametrize("kind", [LOG, CHECKPOINT])
def test_stats_of_a_file_that_is_deleted_meanwhile_say_so(rotated: Path, kind: str) -> None:
    log = open_log(rotated)
    gone = rotated / name_of(2, kind)
    gone.unlink()
    with pytest.raises(RecordingError, match=f"{gone.name}: was deleted while the log was read: a server that records"):
        stats_of(log)


def test_a_folder_whose_files_vanish_again_and_again_says_so(rotated: Path) -> None:
    """A link that leads nowhere is found, and cannot be opened, however often one looks."""
    (rotated / name_of(9, CHECKPOINT)).symlink_to(rotated / "nowhere")
    for result in (record("show", rotated), CliRunner().invoke(app, ["replay", str(rotated)])):
        assert result.exit_code == 2
        assert f"{name_of(9, CHECKPOINT)}: was deleted while the log was read" in said(result)


@pytest.mark.parametrize("command", ["cut", "anonymize"])
def test_a_file_that_cannot_be_written_is_named(log: Path, tmp_path: Path, command: str) -> None:
    out = tmp_path / "out"
    with files_of_at_most(100):
        result = record(command, log, out)
    assert result.exit_code == 2
    assert said(result).endswith(f"{out}: File too large")
    assert not list(tmp_path.glob("*out*"))
