"""Parts of a recording that are replayed side by side say what one replay of the whole says."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extender.operate import replay_jobs
from extender.operate.replay_check import DIFFERS, SAME, check
from extender.operate.replay_jobs import replay_parts, starts_of_parts
from extender.recording.checkpoint import CheckpointHead, encode_checkpoint, read_checkpoint, read_head
from extender.recording.files import CHECKPOINT, LOG, CompressedFile, files_in
from extender.recording.log import open_log
from extender.recording.records import RecordingError
from extender.scheduling.events import PodGone
from extender.scheduling.machine import SchedulerStateMachine
from tests.support.apiserver.api import eventually
from tests.support.engine.objects import node
from tests.support.engine.recorded import Serving, quick


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of many segments, with checkpoints."""
    folder = tmp_path_factory.mktemp("recorded") / "log"
    with pytest.MonkeyPatch.context() as patched:
        quick(patched)
        serving = Serving(folder, 160_000)
        serving.begin()
        while len(starts(folder)) < 5:
            serving.churn(40)
            with serving.lock:
                serving.machine.state.cache.snapshot()  # as pages of a server do
            eventually(lambda: serving.recorder.status.queued == 0 and not serving.recorder._checkpointer.is_wanted)
        serving.churn(40)
        serving.recorder.close()
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is long enough to be divided."""
    monkeypatch.setattr(replay_jobs, "_LEAST_OF_PART", 1)
    return Path(shutil.copytree(recorded, tmp_path / "log"))


def starts(folder: Path) -> list[int]:
    return [each.number for each in open_log(folder).recordings[0].starts]


def replayed(folder: Path, jobs: int) -> tuple[int, str]:
    """The exit status, and what is said without how long it took."""
    said: list[str] = []
    status = check(open_log(folder), said.append, jobs=jobs)
    return status, re.sub(r"replayed in .*", "", "\n".join(said))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def diverge(folder: Path, segment: int) -> int:
    """Change the first placement of a segment; returns its event."""
    path = [each.path for each in files_in(folder) if each.kind == LOG][segment]
    lines = lines_of(path)
    line = next(each for each in lines if each.get("event") == "FilterRequested" and each["out"][0][1].get("node"))
    line["out"][0][1]["node"] = "n9"
    path.write_bytes(
        gzip.compress(b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in lines))
    )
    return int(line["number"])


@pytest.mark.slow
def test_parts_are_the_same_as_the_whole(folder: Path) -> None:
    said: list[str] = []
    jobs = 3
    assert check(open_log(folder), said.append, jobs=jobs) == SAME
    assert f"by up to {jobs} processes" in said[-1]
    assert re.sub(r"replayed in .*", "", said[-1]) == replayed(folder, 1)[1]
    (recording,) = open_log(folder).recordings
    begun = starts_of_parts(recording, jobs)
    parts = list(replay_parts(recording, begun))
    assert [part.began_after for part in parts] == [start.number for start in begun]
    assert [part.until for part in parts] == [*(start.number for start in begun[1:]), None]
    assert len(parts) == jobs


@pytest.mark.slow
def test_the_first_divergence_is_shown_with_all_events_before_it(folder: Path) -> None:
    number = diverge(folder, 2)
    diverge(folder, -1)
    status, said = replayed(folder, 3)
    assert (status, said) == replayed(folder, 1)
    assert status == DIFFERS
    assert f"#{number} filter" in said


@pytest.mark.slow
def test_a_part_that_does_not_come_to_the_recorded_state_goes_on(folder: Path) -> None:
    """As if the recorded state had lost a pod: what follows it would be decided differently from there."""
    before = replayed(folder, 1)
    for number in starts_of_parts(open_log(folder).recordings[0], 3)[1:]:
        assert number.head is not None
        spoil_state(Path(number.head.path))
    assert replayed(folder, 3) == before


def spoil_state(path: Path) -> None:
    engine, head = read_checkpoint(path, "packing"), read_head(path)
    one = next(iter(engine.pod_infos()), None)
    engine.handle(PodGone("default", one.pod.name if one else "p", one.pod.uid if one else "u"), head.at)
    rewrite(path, engine, head)


def rewrite(path: Path, engine: SchedulerStateMachine, head: CheckpointHead) -> None:
    file = CompressedFile(path)
    for line in encode_checkpoint(engine, head):
        file.write(line)
    file.finish()


@pytest.mark.slow
def test_a_state_in_which_the_algorithm_is_another_does_not_count(folder: Path) -> None:
    """The engine is as it was recorded, but its algorithm has lost a node: it would decide otherwise from there on."""
    before = replayed(folder, 1)
    for start in starts_of_parts(open_log(folder).recordings[0], 3)[1:]:
        assert start.head is not None
        path = Path(start.head.path)
        engine, head = start.engine(), read_head(path)
        engine.driver.algorithm.delete_node(node("n0"))
        rewrite(path, engine, head)
    assert replayed(folder, 3) == before


@pytest.mark.slow
def test_a_divergence_that_comes_of_an_algorithm_which_copies_itself_wrongly_does_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is then another one in each checkpoint than in one replay of the whole."""
    before = replayed(folder, 1)
    number = diverge(folder, -1)
    results = list(replay_parts(open_log(folder).recordings[0], starts_of_parts(open_log(folder).recordings[0], 3)))
    assert f"#{number} filter" in "".join(results[-1].divergence)
    for path in [each.path for each in files_in(folder) if each.kind == LOG]:
        undiverge(path)
    monkeypatch.setattr("extender.operate.replay_check.replay_parts", lambda *_: iter(results))
    assert replayed(folder, 3) == before


def undiverge(path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text.replace(b'"node":"n9"', b'"node":"n0"')))


@pytest.mark.slow
def test_a_state_that_cannot_even_be_compared_does_not_count(folder: Path) -> None:
    before = replayed(folder, 1)
    for path in [each.path for each in files_in(folder) if each.kind == CHECKPOINT]:
        text = gzip.decompress(path.read_bytes())
        assert b'"_generation"' in text
        path.write_bytes(gzip.compress(text.replace(b'"_generation"', b'"_degeneration"')))
    assert replayed(folder, 3) == before


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_read_is_gone_past(folder: Path) -> None:
    before = replayed(folder, 1)
    for path in [each.path for each in files_in(folder) if each.kind == CHECKPOINT]:
        head, *rest = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        path.write_bytes(gzip.compress(head + b"".join(rest).replace(b"PodInfo", b"PodOofo")))
    assert replayed(folder, 3) == before


@pytest.mark.slow
def test_a_damaged_segment_is_named_as_by_one_replay(folder: Path) -> None:
    path = [each.path for each in files_in(folder) if each.kind == LOG][2]
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join([*lines[:5], b"{]\n", *lines[6:]])))
    with pytest.raises(RecordingError, match=f"{path.name}:6: no event") as one:
        replayed(folder, 1)
    with pytest.raises(RecordingError) as several:
        replayed(folder, 3)
    assert str(several.value) == str(one.value)


def test_a_process_that_is_killed_is_said_and_none_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received, met = replay_jobs._received, []

    def killed(recording: Any, worker: Any) -> Any:
        met.append(worker.process)
        worker.process.kill()
        return received(recording, worker)

    monkeypatch.setattr(replay_jobs, "_received", killed)
    with pytest.raises(RecordingError, match=r"has ended with status -9; --jobs 1 replays all of it"):
        replayed(folder, 2)
    assert not any(each.is_alive() for each in met)


HANGING = """
import os, sys, threading
from pathlib import Path
from extender.operate import replay_jobs

real = replay_jobs._work

def work(*given):
    def hang(*_):
        print("hangs", flush=True)
        threading.Event().wait()
    replay_jobs.part_or_refusal = hang
    real(*given)

def main(folder):
    from extender.operate.replay_check import check
    from extender.recording.log import open_log
    replay_jobs._LEAST_OF_PART, replay_jobs._work = 1, work
    check(open_log(Path(folder)), print, jobs=2)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_survives_the_one_that_started_it(folder: Path, tmp_path: Path, how: signal.Signals) -> None:
    """Each is in a call that does not return. They have its standard error, which has an end once all have ended; what
    an algorithm prints goes there, too."""
    (tmp_path / "hanging.py").write_text(HANGING)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", f"import hanging; hanging.main({str(folder)!r})"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, start_new_session=True) as process:
        assert process.stderr is not None
        try:
            assert [process.stderr.readline() for _ in range(2)] == [b"hangs\n"] * 2
            process.send_signal(how)
            process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_short_recording_is_replayed_in_this_process(recorded: Path) -> None:
    (recording,) = open_log(recorded).recordings
    assert len(recording.starts) > 4
    assert len(starts_of_parts(recording, 64)) == 1
