"""`waggle replay LOG`: all the same, the first divergence with both reasons, or why the log cannot be used."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.operate.replay_check import check
from extender.recording.log import open_log
from extender.scheduling.events import NodeSeen, Synced, Ticked
from tests.support.engine.scripted_log import ScriptedLog, gpu_node, gpu_pod, two_nodes
from tests.support.installed import install

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"


def said(result: Result) -> str:
    return " ".join(result.output.split())


def replay(path: Path) -> Result:
    return CliRunner().invoke(app, ["replay", str(path)])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return two_nodes().write(tmp_path / "log")


def edited(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> Path:
    """The log after a change of its lines; line 0 is the header, line N event N."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    change(lines)
    path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))
    return path


def test_all_the_same(log: Path) -> None:
    result = replay(log)
    assert result.exit_code == 0
    assert "16 events, 3 decisions, all the same. 5m0s replayed in" in result.output


def test_the_first_divergence_has_both_decisions_with_their_reasons_and_the_pods_history(log: Path) -> None:
    def other(lines: list[dict[str, Any]]) -> None:
        lines[5]["out"][0][1]["node"] = "n2"
        why = {"code": "InsufficientResource", "params": [["resources", "example.com/tpu"]]}
        lines[15]["out"][0][1].update(reason=why, nodes={})

    result = replay(edited(log, other))
    assert result.exit_code == 1
    assert "after 4 events with the same answers, the first divergence:" in result.output
    assert "#5 filter default/a, 2 nodes offered" in result.output
    assert "was: placed on n2" in result.output
    assert "now: placed on n1" in result.output
    assert "history of default/a in this replay:" in result.output

    def one(lines: list[dict[str, Any]]) -> None:
        lines[5]["out"][0][1]["node"] = "n1"

    result = replay(edited(log, one))
    assert "was: refused: InsufficientResource: insufficient example.com/tpu" in result.output
    assert "now: refused: NodeLacksResource: node never has enough nvidia.com/gpu" in result.output


def test_an_answer_that_only_lacks_an_empty_field_of_today_is_the_same(log: Path) -> None:
    def older(lines: list[dict[str, Any]]) -> None:
        del lines[5]["out"][0][1]["pass_through"]

    assert replay(edited(log, older)).exit_code == 0


def test_a_log_of_format_1_is_replayed_without_comparison(log: Path) -> None:
    def first(lines: list[dict[str, Any]]) -> None:
        kept = ("algorithm", "settings", "policy", "constants")
        lines[0] = {"waggle": 1} | {name: lines[0][name] for name in kept}
        for line in lines[1:]:
            del line["out"]
            if line["event"] == "FilterRequested":
                line["data"]["nodes"] = ["n1", "n2"]

    result = replay(edited(log, first))
    assert result.exit_code == 0
    assert "16 events, 3 decisions, none compared" in result.output

    def constants(lines: list[dict[str, Any]]) -> None:
        lines[0]["constants"]["algorithm.reasons.LONGEST"] = 7

    result = replay(edited(log, constants))
    assert result.exit_code == 2
    assert "algorithm.reasons.LONGEST was 7, and is 512 now" in " ".join(result.output.split())


def test_other_constants_are_said_where_decisions_are_compared(log: Path) -> None:
    def constants(lines: list[dict[str, Any]]) -> None:
        lines[0]["constants"]["algorithm.reasons.LONGEST"] = 7

    result = replay(edited(log, constants))
    assert result.exit_code == 0
    assert (
        "constants of this program differ from the recorded ones: algorithm.reasons.LONGEST was 7, and is 512 now"
        in result.output
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[0].update(waggle=3, release="9.9"), "recorded in format 3 by release 9.9"),
        (lambda lines: lines[0].update(algorithm="nonsense"), "nonsense"),
        (lambda lines: lines[0]["policy"].update(mercy=1), "the policy has what this Waggle does not know: mercy"),
        (lambda lines: lines[0]["fields"]["Pod"].append("mood"), "fields that this program does not know: Pod.mood"),
        (lambda lines: lines[3].update(event="Danced"), "log:4: no event: 'Danced' is none that this Waggle knows"),
        (lambda lines: lines[3].update(mood=1), "log:4: no event: Object contains unknown field `mood`"),
        (lambda lines: lines.pop(3), "log:4: expected event 3, not 4: some are missing"),
        (
            lambda lines: lines.insert(4, lines[3]),
            "log:5: expected event 4, not 3: it is there already, or out of order",
        ),
        (lambda lines: lines[0].update(first=5), "begins with event 5, and has no checkpoint"),
    ],
)
def test_a_log_that_cannot_be_replayed_says_why(log: Path, change: Callable[[Any], object], said: str) -> None:
    result = replay(edited(log, change))
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize("what", ["nothing", "empty", "folder", "text"])
def test_what_is_no_log_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "log"
    if what == "empty":
        path.write_bytes(b"")
    elif what == "folder":
        path.mkdir()
        (path / "README.md").write_text("not a segment")
    elif what == "text":
        path.write_text("Dear diary,\n")
    result = replay(path)
    assert result.exit_code == 2
    said = {
        "nothing": "No such file",
        "empty": "no header",
        "folder": "expected files like 000001",
        "text": "no header",
    }
    assert said[what] in " ".join(result.output.split())


@pytest.mark.parametrize(("algorithm", "events"), [("packing", 55), ("hived", 71)])
def test_a_log_of_an_earlier_release_replays_or_names_the_constants_that_differ(algorithm: str, events: int) -> None:
    """Two logs that the release before this format has written: a life of tests/support/engine/lives.py."""
    path = FIXTURES / f"format-1-{algorithm}.log.gz"
    result = replay(path)
    if result.exit_code == 2:
        assert "this program may decide differently, and a log of format 1 has no answers to compare with: " in said(
            result
        )
    else:
        assert (result.exit_code, f"{events} events" in result.output) == (0, True)
    heard: list[str] = []
    assert check(open_log(path), heard.append, anyway=True) == 0
    assert "none compared" in heard[-1]


def test_a_log_of_format_2_with_its_first_forms_of_lists_replays() -> None:
    """Written before lists of names were written as they came: numbers, runs and references only."""
    path = FIXTURES / "format-2-packing.log.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    for form in ('"nodes":{"new":', '"nodes":{"runs":', '"nodes":{"at":', '"nodes":{"same":'):
        assert form in text
    heard: list[str] = []
    assert check(open_log(path), heard.append, anyway=True) == 0
    assert "59 events, 8 decisions, all the same" in heard[-1]
    offers = [len(step.event.nodes) for step in open_log(path).recordings[0].steps() if hasattr(step.event, "nodes")]
    assert offers == [40, 40, 40, 20, 40, 39, 40, 40]


# -- runs and decisions -------------------------------------------------------------------------------------------


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    """A folder with two runs of a server: of sixteen events, and of its first four ones."""
    folder = tmp_path / "runs"
    folder.mkdir()
    text = two_nodes().write(tmp_path / "one").read_bytes()
    (folder / "000001.waggle-log.gz").write_bytes(gzip.compress(text))
    few = b"".join(text.splitlines(keepends=True)[:5]).replace(b'"scripted"', b'"another"')
    (folder / "000002.waggle-log.gz").write_bytes(gzip.compress(few))
    return folder


def test_all_runs_are_replayed_and_each_says_which_it_is(two_runs: Path) -> None:
    result = CliRunner().invoke(app, ["replay", str(two_runs)])
    assert result.exit_code == 0
    assert f"run 1 of 2, {two_runs}/000001.waggle-log.gz: 16 events, 3 decisions, all the same" in result.output
    assert f"run 2 of 2, {two_runs}/000002.waggle-log.gz: 4 events, 0 decisions, all the same" in result.output
    assert "\nall 2 runs: 20 events, 3 decisions, all the same" in result.output


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    """A folder that begins with event 5, and whose first checkpoint was taken after event 8."""
    folder = two_nodes().write_folder(tmp_path / "rotated", 4)
    for name in ("000001.waggle-log", "000002.waggle-checkpoint"):
        (folder / f"{name}.gz").unlink()
    return folder


def test_events_from_before_the_first_checkpoint_are_not_counted_as_the_same(rotated: Path) -> None:
    result = replay(rotated)
    assert result.exit_code == 0
    assert "events 5 to 8 are not replayed: the first checkpoint was taken after event 8" in result.output
    assert "8 events, 2 decisions, all the same; 4 more are not in the log, or not replayed." in result.output


def test_a_moment_is_the_same_one_for_replay_and_record(rotated: Path) -> None:
    """Both count from the first event that is left, also where that one cannot be replayed."""

    def at(moment: str) -> Result:
        return CliRunner().invoke(app, ["replay", str(rotated), "--at", moment])

    listed = CliRunner().invoke(app, ["record", "show", str(rotated)]).output.splitlines()
    times = {line.split()[1]: line.split()[0] for line in listed if line.startswith("+")}
    assert times["#5"] == "+0s"
    for number in ("#9", "#13", "#16"):
        last = [each for each, at in times.items() if at == times[number]][-1]
        assert f" at {times[number]}, after event {last[1:]}" in at(times[number]).output
    result = at("+0")
    assert result.exit_code == 2
    why = f"+0 is before the first moment that can be replayed, {times['#8']}, right after event 8"
    assert why in " ".join(result.output.split())


@pytest.fixture
def only_the_end(rotated: Path) -> Path:
    """A folder with events 5 to 8, and the checkpoint after event 8: the last moment."""
    for name in ("000003.waggle-log", "000004.waggle-checkpoint", "000004.waggle-log"):
        (rotated / f"{name}.gz").unlink()
    return rotated


def test_a_log_that_ends_before_its_first_checkpoint_has_nothing_that_is_the_same(only_the_end: Path) -> None:
    result = replay(only_the_end)
    assert "0 events, 0 decisions, nothing to replay; 4 more are not in the log, or not replayed." in result.output
    assert "all the same" not in result.output
    assert result.exit_code == 2
    assert f"{only_the_end}: it has no event that can be replayed" in said(result)


def test_one_run_that_can_be_replayed_is_enough(two_runs: Path, only_the_end: Path) -> None:
    for path in only_the_end.iterdir():
        number = int(path.name[:6]) + 10
        path.rename(two_runs / f"{number:06}{path.name[6:]}")
    result = replay(two_runs)
    assert (result.exit_code, "run 3 of 3" in result.output) == (0, True), result.output
    assert CliRunner().invoke(app, ["replay", str(two_runs), "--run", "3"]).exit_code == 2


@pytest.mark.parametrize("moment", ["end", "#8"])
def test_the_moment_of_the_only_checkpoint_can_be_opened(only_the_end: Path, moment: str) -> None:
    def shown(*options: str) -> str:
        result = CliRunner().invoke(app, ["replay", str(only_the_end), "--at", moment, *options])
        assert result.exit_code == 0, result.output
        return result.output

    assert ", after event 8;" in shown()
    assert "default/a" in shown("--pod", "default/a")


def test_a_moment_after_the_only_checkpoint_is_refused(only_the_end: Path) -> None:
    for moment in ("#9", "+1h"):
        result = CliRunner().invoke(app, ["replay", str(only_the_end), "--at", moment])
        assert (result.exit_code, "is after the end of the log: it has 8 events" in said(result)) == (2, True)


@pytest.mark.parametrize("arguments", [["--at", "#5"], ["--step", "--at", "#5"]])
def test_a_moment_that_a_run_lacks_is_refused_with_the_number_of_that_run(two_runs: Path, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["replay", str(two_runs), *arguments])
    assert result.exit_code == 2
    assert "runs, run 2 of 2: #5 is after the end of the log: it has 4 events" in said(result)
    assert said(result).endswith("--run N takes another one")


@pytest.mark.parametrize("moment", ["end", "#8", "+0"])
def test_a_server_that_was_killed_right_after_a_checkpoint_leaves_its_moment(rotated: Path, moment: str) -> None:
    """Its folder has the checkpoint, and a segment without events."""
    begun = rotated / "000003.waggle-log.gz"
    begun.write_bytes(gzip.compress(gzip.decompress(begun.read_bytes()).splitlines(keepends=True)[0]))
    for name in ("000002.waggle-log", "000004.waggle-checkpoint", "000004.waggle-log"):
        (rotated / f"{name}.gz").unlink()
    result = CliRunner().invoke(app, ["replay", str(rotated), "--at", moment])
    assert (result.exit_code, ", after event 8;" in result.output) == (0, True), result.output


def test_the_sum_of_all_runs_says_how_many_of_them_differ(two_runs: Path) -> None:
    first = two_runs / "000001.waggle-log.gz"
    lines = [json.loads(line) for line in gzip.decompress(first.read_bytes()).splitlines()]
    lines[5]["out"][0][1]["node"] = "n2"
    first.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    result = CliRunner().invoke(app, ["replay", str(two_runs)])
    assert result.exit_code == 1
    assert f"run 1 of 2, {first}: after 4 events with the same answers" in result.output
    sum_of_all = result.output.splitlines()[-1]
    assert sum_of_all.startswith("all 2 runs: 9 events, ")
    assert " decision, replayed up to a divergence in one of them. " in sum_of_all


@pytest.mark.parametrize(("options", "shown"), [([], "run 2 of 2"), (["--run", "1"], "run 1 of 2")])
def test_a_run_is_chosen_and_said(two_runs: Path, options: list[str], shown: str) -> None:
    """Of a moment and of steps it is the latest, unless --run names another."""
    moment = CliRunner().invoke(app, ["replay", str(two_runs), "--at", "end", *options])
    assert (moment.exit_code, f"Replay of runs, {shown} at +" in moment.output) == (0, True), moment.output
    other = ["--algorithm", "fgd"]
    compared = CliRunner().invoke(app, ["replay", str(two_runs), *other, *options])
    assert (compared.exit_code, f"What runs, {shown} does not contain" in compared.output) == (0, True)


def test_one_run_alone_is_compared(two_runs: Path) -> None:
    result = CliRunner().invoke(app, ["replay", str(two_runs), "--run", "2"])
    assert "run 2 of 2" in result.output
    assert "run 1 of 2" not in result.output
    assert "all 2 runs" not in result.output


@pytest.mark.parametrize("options", [[], ["--at", "end"], ["--step"], ["--algorithm", "fgd"]])
def test_a_run_that_is_not_there_is_refused(two_runs: Path, options: list[str]) -> None:
    result = CliRunner().invoke(app, ["replay", str(two_runs), "--run", "3", *options])
    assert (result.exit_code, "has 2 runs of a server; there is no run 3" in said(result)) == (2, True)


def test_a_moment_after_the_end_says_what_the_log_has(log: Path) -> None:
    result = CliRunner().invoke(app, ["replay", str(log), "--at", "+2h"])
    assert result.exit_code == 2
    assert "it has 16 events, from +0s to +5m0s (+5m0s); `end` is its last moment" in said(result)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 4000, '"' + "x" * 100_000 + '"'])
def test_a_huge_value_is_not_echoed(log: Path, number: str) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], lines[4].replace(b'"priority":0', b'"priority":' + number.encode())]))
    for command in (["replay", str(log)], ["replay", str(log), "--at", "end"], ["record", "show", str(log)]):
        result = CliRunner().invoke(app, command)
        assert isinstance(result.exception, SystemExit | None)
        assert "log:5: no event: " in said(result) or number.strip("-0") == "1"
        assert len(result.output) < 2000


def test_a_simulation_that_is_stopped_is_told_and_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand attempts fail, one after the other: nothing is known of what would have been."""
    install(tmp_path, monkeypatch, raising="tests.support.lab.plugins:RAISING")
    log = ScriptedLog()
    for event in (NodeSeen(gpu_node("n1")), Synced()):
        log.at(1.0, event)
    for number in range(1000):
        log.see(2.0, gpu_pod(f"p{number}"))
    log.at(9.0, Ticked())
    result = CliRunner().invoke(app, ["replay", str(log.write(tmp_path / "log")), "--algorithm", "raising"])
    assert result.exit_code == 1, result.output
    assert "raising was stopped: 1000 attempts failed, one after the other" in said(result)
