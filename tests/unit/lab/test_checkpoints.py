"""A run that goes on from a checkpoint gives the bytes of one that was never interrupted."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from extender.lab.checkpoints import CheckpointError, Keeper, read
from extender.lab.comparing import Comparison, compare
from extender.lab.results import encode
from extender.lab.run.simulation import RunOptions
from extender.lab.workload import Workload
from tests.support.installed import install
from tests.support.lab.hived import hived_settings
from tests.support.lab.workloads import random_workload
from tests.support.small_files import files_of_at_most

RUNS = [RunOptions(algorithm=name, name=name, seed=1, stays=True) for name in ("packing", "fgd")]
HIVED = RunOptions(algorithm="hived", name="hived", settings=hived_settings(["n0", "n1"], {"a": 1, "b": 1}))


def workload_of(seed: int) -> Workload:
    return random_workload(seed, jobs=25, machines=2, urgent=True, failures=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_is_interrupted_anywhere_gives_the_same_bytes(seed: int, tmp_path: Path) -> None:
    workload, random, runs = workload_of(seed), Random(seed), [*RUNS, HIVED]
    keeper = Keeper(tmp_path / "checkpoint", workload, runs)
    comparison = Comparison(workload, runs)
    interruptions = 0
    while comparison.advance():
        if random.random() < 0.04:
            interruptions += 1
            keeper.keep(comparison.progress)
            comparison = Comparison(workload, runs, read(keeper.path, workload, runs))
    assert interruptions > 2
    assert encode(comparison.results()) == encode(compare(workload, runs))
    assert list(tmp_path.iterdir()) == [keeper.path]


def test_a_checkpoint_changes_nothing_for_the_run_that_wrote_it(tmp_path: Path) -> None:
    workload = workload_of(7)
    keeper = Keeper(tmp_path / "checkpoint", workload, RUNS)
    comparison = Comparison(workload, RUNS)
    moments = 0
    while comparison.advance():
        moments += 1
        if moments % 10 == 0:
            keeper.keep(comparison.progress)
    assert moments > 50
    assert encode(comparison.results()) == encode(compare(workload, RUNS))


def kept(path: Path, workload: Workload) -> bytes:
    """Write a checkpoint in the middle of the second run, and return its lines."""
    comparison = Comparison(workload, RUNS)
    while comparison.number == 0 or comparison.progress.current is None or comparison.progress.current.moment < 50:
        comparison.advance()
    Keeper(path, workload, RUNS).keep(comparison.progress)
    return gzip.decompress(path.read_bytes())


def test_a_checkpoint_of_other_inputs_is_refused_and_says_which_differ(tmp_path: Path) -> None:
    workload, path = workload_of(2), tmp_path / "checkpoint"
    kept(path, workload)
    fewer_jobs, fewer_nodes = workload.jobs[:-1], workload.nodes[:-1]
    for given, runs, said in (
        (replace(workload, jobs=fewer_jobs), RUNS, "another trace"),
        (replace(workload, nodes=fewer_nodes), RUNS, "other nodes"),
        (replace(workload, failures=workload.failures[:-1]), RUNS, "other nodes"),
        (workload, RUNS[:1], "other options"),
        (workload, [replace(RUNS[0], seed=2), RUNS[1]], "other options"),
        (replace(workload, jobs=fewer_jobs, nodes=fewer_nodes), RUNS, "another trace and other nodes"),
    ):
        with pytest.raises(CheckpointError, match=f": the checkpoint is of {said}$"):
            read(path, given, runs)


def test_a_checkpoint_of_another_release_is_refused(tmp_path: Path) -> None:
    workload, path = workload_of(2), tmp_path / "checkpoint"
    head, *rest = kept(path, workload).splitlines()[:-1]
    changed = msgspec.json.decode(head) | {"release": "0.0.7"}
    path.write_bytes(gzip.compress(ended(msgspec.json.encode(changed), *rest) + b"\n"))
    with pytest.raises(CheckpointError, match=r"was written by Waggle 0\.0\.7, and this is "):
        read(path, workload, RUNS)


def test_a_checkpoint_from_before_an_algorithm_was_edited_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same version of its package does not say that it decides the same."""
    package = tmp_path / "edited_package"
    package.mkdir()
    (package / "__init__.py").write_text('"""An algorithm that somebody works on."""\n')
    source = package / "emptiest.py"
    source.write_text("from tests.support.lab.plugins import EMPTIEST\n")
    install(tmp_path, monkeypatch, edited="edited_package.emptiest:EMPTIEST")
    workload, path, runs = workload_of(3), tmp_path / "checkpoint", [RunOptions(algorithm="edited", name="edited")]
    keeper = Keeper(path, workload, runs)
    keeper.keep(Comparison(workload, runs).progress)
    assert read(path, workload, runs).finished == []
    source.write_text("from tests.support.lab.plugins import EMPTIEST  # decides otherwise\n")
    with pytest.raises(CheckpointError, match="the sources of edited_package have changed"):
        read(path, workload, runs)


def ended(*lines: bytes) -> bytes:
    """Lines with the end that a checkpoint of them has."""
    text = b"".join(line + b"\n" for line in lines)
    return text + b'{"end":"' + sha256(text).hexdigest().encode() + b'"}'


def mutated(text: bytes, random: Random) -> bytes:
    """One of the ways in which somebody could change a line: a number, a character, a word, a half, a line less."""
    lines = text.splitlines()
    place = random.randrange(1, len(lines))
    line, at = lines[place], random.randrange(len(lines[place]))
    numbers = [match.span() for match in re.finditer(rb"-?[0-9]+", line)]
    match random.randrange(5):
        case 0 if numbers:
            begin, end = random.choice(numbers)
            lines[place] = (
                line[:begin] + random.choice([b"0", b"-1", b"null", b"7.5", b'"x"', b"99999999"]) + line[end:]
            )
        case 1:
            lines[place] = line[:at] + bytes([line[at] ^ (1 << random.randrange(7))]) + line[at + 1 :]
        case 2:
            lines[place] = re.sub(rb'"[a-z_]+"', b'"jobs"', line, count=1)
        case 3:
            lines[place] = line[:at]
        case _:
            del lines[place]
    return b"\n".join(lines) + b"\n"


@pytest.mark.slow
def test_every_change_of_a_checkpoint_is_found_before_a_run_begins(tmp_path: Path) -> None:
    workload, path, random = workload_of(2), tmp_path / "checkpoint", Random(1)
    text = kept(path, workload)
    changed = 0
    for _ in range(60):
        other = mutated(text, random)
        if other == text:
            continue
        changed += 1
        path.write_bytes(gzip.compress(other, compresslevel=1))
        with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}"):
            read(path, workload, RUNS)
    assert changed > 50


def test_what_is_broken_is_named(tmp_path: Path) -> None:
    workload, path = workload_of(2), tmp_path / "checkpoint"
    lines = kept(path, workload).splitlines()
    for text, message in (
        (b"", "checkpoint: not a checkpoint of a simulation"),
        (b"{}", "not a checkpoint of a simulation"),
        (lines[0].replace(b'"waggle_simulation":4', b'"waggle_simulation":9'), "a checkpoint of format 9"),
        (b'{"waggle_simulation":3,"inputs":"0a"}', "a checkpoint of format 3, this Waggle reads 4"),
        (b"\n".join(lines[:-1]), "the checkpoint is not complete"),
        (b"\n".join([*lines[:-1], b'{"end":true}']), "its lines have another digest than its end"),
        (b"\n".join([*lines, b'{"end":"more"}']), "its lines have another digest than its end"),
        (ended(lines[0], b'{"jobs":[{"name":"a","arrival":0.0}]}'), "jobs of no run"),
        (ended(lines[0], b'{"other":1}'), "no part of a checkpoint"),
        (ended(lines[0], b'{"objects":[["list"]]}'), "expected a simulation in the checkpoint"),
        (
            ended(lines[0], b'{"objects":[["object",0]],"kinds":[["os","system"]]}'),
            "the checkpoint cannot be used: os:system is in none of the packages",
        ),
    ):
        path.write_bytes(gzip.compress(text + b"\n" if text else text))
        with pytest.raises(CheckpointError) as caught:
            read(path, workload, RUNS)
        assert message in str(caught.value)


MORE = gzip.compress(b"more", mtime=0)


@pytest.mark.parametrize(
    "tail",
    [b"x", b"more\n", b"\0", b"\0" * 1000, gzip.compress(b"", mtime=0), MORE, MORE[:9]],
    ids=["byte", "line", "zero", "zeros", "empty member", "member", "begun member"],
)
@pytest.mark.parametrize("is_compressed", [True, False])
def test_a_checkpoint_with_something_after_its_end_is_refused(
    tmp_path: Path, tail: bytes, *, is_compressed: bool
) -> None:
    workload, path = workload_of(2), tmp_path / "checkpoint"
    plain = kept(path, workload)
    whole = path.read_bytes() if is_compressed else plain
    path.write_bytes(whole)
    assert len(read(path, workload, RUNS).finished) == 1
    path.write_bytes(whole + tail)
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}:"):
        read(path, workload, RUNS)


# -- what is left behind ----------------------------------------------------------------------------------------------


def test_a_checkpoint_that_a_full_disk_does_not_take_is_named_and_the_old_one_stays(tmp_path: Path) -> None:
    workload, path = workload_of(2), tmp_path / "checkpoint"
    before = kept(path, workload)
    with files_of_at_most(500), pytest.raises(OSError, match="File too large") as raised:
        kept(path, workload)
    assert raised.value.filename == str(path)
    assert gzip.decompress(path.read_bytes()) == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_has_left_of_a_checkpoint_is_deleted(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    path = tmp_path / "checkpoint"
    left = [f".checkpoint.{number}" for number in (ended.pid, os.getpid(), "9" * 30)]
    others = [f".checkpoint.{os.getppid()}", ".checkpoint.old", "checkpoint.1", f".other.{ended.pid}"]
    for name in (*left, *others):
        (tmp_path / name).write_text("half")
    Keeper(path, workload_of(2), RUNS)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(others)
