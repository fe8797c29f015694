"""`waggle record anonymize`: what it writes decides the same, and no name is left, also where it begins with a
checkpoint."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from algorithm.interface import SuggestedNodes
from extender.cli import app
from extender.operate.anonymous_checkpoint import Words, words_of
from extender.plan.reading.numbering import numbers_between
from extender.recording.log import open_log
from extender.scheduling.events import FilterRequested, NodeSeen, Synced
from tests.support.engine.lives import Life, lives
from tests.support.engine.scripted_log import ScriptedLog, gpu_node, gpu_pod, two_nodes
from tests.support.installed import install


def waggle(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def said(result: Result) -> str:
    return " ".join(result.output.split())


def plain(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


@cache
def a_life(algorithm: str) -> Life:
    return max(lives(algorithm, 3), key=lambda life: len(life.heard))


def names_in(log: Path) -> set[str]:
    """Names of pods, namespaces, nodes, and UIDs."""
    found = set()
    for step in open_log(log).recordings[0].steps():
        for about in (step.event, getattr(step.event, "pod", None), getattr(step.event, "node", None)):  # type: ignore[union-attr]
            found |= {getattr(about, field, "") for field in ("namespace", "name", "uid", "node_name")}
    return {each for each in found if each and isinstance(each, str)}


def stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.\-~]){re.escape(name)}(?![\w.\-~])", text) is not None


def without_names(log: Path, folder: Path, begin: int = 1) -> str:
    """The part of the log from this event on without names: it replays, and says what is expected. Returns its text."""
    part, out = folder / f"part-{begin}.gz", folder / f"out-{begin}.gz"
    assert waggle("record", "cut", log, part, "--from", begin).exit_code == 0
    result = waggle("record", "anonymize", part, out)
    assert (result.exit_code, "decisions are the same, apart from names" in result.output) == (0, True), result.output
    assert waggle("replay", out).exit_code == 0
    kept = re.findall(r"they are words of the program, too: (.*)", result.output)
    text = plain(out)
    assert [each for each in names_in(log) if stands_in(each, text)] == [] or kept
    assert {each for each in names_in(log) if stands_in(each, text)} <= set(", ".join(kept).split(", "))
    return text


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.6])
def test_a_log_without_names_decides_the_same(algorithm: str, share: float, tmp_path: Path) -> None:
    """From its first event, and from a checkpoint."""
    life = a_life(algorithm)
    (tmp_path / "log").write_bytes(life.log)
    without_names(tmp_path / "log", tmp_path, max(1, round(share * len(life.heard))))


@pytest.mark.parametrize("algorithm", ["packing", pytest.param("fgd", marks=pytest.mark.slow)])
def test_names_planted_everywhere_are_gone(algorithm: str, tmp_path: Path) -> None:
    log = planted(algorithm).write(tmp_path / "log")
    for begin in (1, 6, 11, 14):
        assert "secret" not in without_names(log, tmp_path, begin)


def planted(algorithm: str) -> ScriptedLog:
    """Names with `secret` in them wherever they can be: also of a pod that has gone, and of one that waits."""
    log = ScriptedLog(algorithm)
    for name in ("secret-host", "10.9.8.7-secret"):
        log.at(1.0, NodeSeen(msgspec.structs.replace(gpu_node(name), labels=(("rack", "secret-rack"),))))
    log.at(1.0, Synced())
    labels = (("app", "secret-project"), ("user", "SecretUser_secret"))
    annotations = (("example.com/gang", "secret-gang"), ("example.com/json", '{"name": "secret-a", "x": ["secret-b"]}'))
    for number, gpus in enumerate((1, 2, 8)):
        pod = gpu_pod(f"secret-job-{number}", gpus, namespace="secret-team", labels=labels, annotations=annotations)
        log.see(2.0 + number, pod)
        log.place(2.0 + number, pod, "secret-host", "10.9.8.7-secret")
        if number == 0:
            log.end(3.5, pod)
    return log


def test_names_are_gone_from_a_log_with_its_first_event(tmp_path: Path) -> None:
    log = planted("packing").write(tmp_path / "log")
    result = waggle("record", "anonymize", log, tmp_path / "out.gz")
    assert result.exit_code == 0, result.output
    assert "secret" not in plain(tmp_path / "out.gz")


def test_a_word_of_the_program_is_kept_and_told(tmp_path: Path) -> None:
    """A namespace of the name of a strategy: where the word stands in a state, nobody can tell which one is meant."""
    log = ScriptedLog("packing", {"strategy": "spread"})
    log.at(1.0, NodeSeen(gpu_node("n1")))
    log.at(1.0, Synced())
    for number in range(3):
        pod = gpu_pod(f"job-{number}", namespace="spread")
        log.see(2.0, pod)
        log.place(2.0, pod, "n1")
    part, out = tmp_path / "part.gz", tmp_path / "out.gz"
    waggle("record", "cut", log.write(tmp_path / "log"), part, "--from", 6)
    result = waggle("record", "anonymize", part, out)
    assert result.exit_code == 0, result.output
    assert "kept, since they are words of the program, too: spread" in said(result)
    assert '"namespace":"spread"' in plain(out)
    assert waggle("replay", out).exit_code == 0


def test_a_folder_that_has_lost_its_first_segments(tmp_path: Path) -> None:
    folder = two_nodes().write_folder(tmp_path / "folder", every=4)
    for name in ("000001.waggle-log.gz", "000002.waggle-log.gz", "000002.waggle-checkpoint.gz"):
        (folder / name).unlink()
    result = waggle("record", "anonymize", folder, tmp_path / "out.gz")
    assert (result.exit_code, "8 events" in result.output) == (0, True), result.output
    replayed = waggle("replay", tmp_path / "out.gz")
    assert (replayed.exit_code, "8 events" in replayed.output) == (0, True)


def test_the_name_of_a_resource_in_a_text_of_the_state_is_no_name(tmp_path: Path) -> None:
    """Half of it was taken for one, of which the command then said that it is still there."""
    folder = two_nodes().write_folder(tmp_path / "folder", every=15)
    (folder / "000001.waggle-log.gz").unlink()
    said_of_c = "node never has enough nvidia.com/gpu"
    assert said_of_c in plain(folder / "000002.waggle-checkpoint.gz")
    out = tmp_path / "anonymous.gz"
    done = waggle("record", "anonymize", folder, out)
    assert "still in it" not in done.output
    assert done.exit_code == 0
    assert said_of_c in plain(out)


def test_without_its_first_event_and_without_a_checkpoint_it_is_refused(tmp_path: Path) -> None:
    folder = two_nodes().write_folder(tmp_path / "folder", every=8)
    (folder / "000001.waggle-log.gz").unlink()
    (folder / "000002.waggle-checkpoint.gz").unlink()
    result = waggle("record", "anonymize", folder, tmp_path / "out.gz")
    assert (result.exit_code, "has no checkpoint" in said(result)) == (2, True)
    assert not (tmp_path / "out.gz").exists()


def test_an_algorithm_that_reads_names_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, by_length="tests.support.lab.plugins:BY_LENGTH")
    log = ScriptedLog("by_length")
    for name in ("n1", "n2"):
        log.at(1.0, NodeSeen(gpu_node(name)))
    log.at(1.0, Synced())
    for name in ("even", "odd"):
        pod = gpu_pod(name)
        log.see(2.0, pod)
        log.place(3.0, pod, "n1", "n2")
    result = waggle("record", "anonymize", log.write(tmp_path / "log"), tmp_path / "out.gz")
    assert result.exit_code == 1
    assert "events have other answers without the names: the algorithm uses more of a name than" in said(result)
    assert re.search(r"event \d+: filter x\d+ became filter x\d+ without names", said(result))


def test_that_this_program_decides_otherwise_with_the_names_too_is_told(tmp_path: Path) -> None:
    """The recorded node is another one than that of the replay: names are not to blame."""
    log = two_nodes().write(tmp_path / "log")
    log.write_bytes(log.read_bytes().replace(b'"node":"n1","reason"', b'"node":"n2","reason"', 1))
    result = waggle("record", "anonymize", log, tmp_path / "out.gz")
    assert result.exit_code == 1
    assert (
        "1 of 16 events have other answers: this program decides otherwise with the names, too, first at event 5 "
        "(`waggle replay` shows it) the new recording has the answers of this program, not the recorded ones"
    ) in said(result)
    assert "event 5: filter x" in said(result)


# -- names that look like numbers -------------------------------------------------------------------------------------


def test_an_address_is_a_name_wherever_it_stands(tmp_path: Path) -> None:
    log = ScriptedLog()
    log.at(1.0, NodeSeen(msgspec.structs.replace(gpu_node("10.0.0.17"), labels=(("host", "10.0.0.17"), ("n", "17")))))
    log.at(1.0, Synced())
    pod = gpu_pod("12", uid="12")
    log.see(2.0, pod)
    log.at(2.0, FilterRequested(pod, SuggestedNodes(("10.0.0.17",))))
    result = waggle("record", "anonymize", log.write(tmp_path / "log"), tmp_path / "out.gz")
    assert result.exit_code == 0, result.output
    text = plain(tmp_path / "out.gz")
    assert "10.0.0.17" not in text
    assert '"name":"12"' not in text
    assert json.loads(text.splitlines()[1])["data"]["node"]["labels"][1][1] == "17"


@given(names=st.sets(st.text("ab-.09x", min_size=1, max_size=4), max_size=12), data=st.data())
@settings(max_examples=60, deadline=None)
def test_numbers_keep_the_order_of_names_among_words_that_stay(names: set[str], data: Any) -> None:
    fixed = set(data.draw(st.lists(st.sampled_from(sorted(names)), max_size=3))) if names else set()
    try:
        numbers = numbers_between(names, fixed)
    except ValueError:
        return  # nothing fits between a word and the same with a character below those that we use
    assert [numbers[each] for each in sorted(names)] == sorted(numbers[each] for each in names)
    assert len(set(numbers.values())) == len(names)
    assert all((numbers[each] == each) is (each in fixed) for each in names)


# -- words of the program ---------------------------------------------------------------------------------------------


def test_words_of_the_program_are_its_texts_and_not_its_examples() -> None:
    words = Words(["extender.scheduling.machine", "algorithm.packing.settings"])
    assert "spread" in words.texts
    assert "train-0" not in words.words
    assert words_of("gang ns/secret-a waits until 8 (of 'secret-b').") == [
        "gang", "ns", "secret-a", "waits", "until", "8", "of", "secret-b"
    ]  # fmt: skip


def test_bytes_with_a_name_in_them_are_refused(tmp_path: Path) -> None:
    """The place of a text in the state is taken by bytes: nobody knows what they mean."""
    part, out = tmp_path / "part.gz", tmp_path / "out.gz"
    waggle("record", "cut", planted("packing").write(tmp_path / "log"), part, "--from", 8)
    text = gzip.decompress(part.read_bytes())
    row = b'["bytes","eC9zZWNyZXQtaG9zdC8x"]'  # x/secret-host/1
    text = re.sub(
        rb'\n\{"objects":(\d+)\}\n', lambda end: b'\n{"objects":[' + row + b'],"kinds":[]}' + end[0], text, count=1
    )
    part.write_bytes(gzip.compress(text))
    result = waggle("record", "anonymize", part, out)
    assert result.exit_code == 2
    assert "is bytes in which the name 'secret-host' stands" in said(result)
    assert not out.exists()
