"""Whatever stands in the files, a trace is read or refused with a TraceError: mutations of each sample."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from extender.lab.importers import load
from extender.lab.tables import TraceError
from tests.unit.lab.importers.test_formats import TRACES, azure

JUNK = (
    b"",
    b"\x00",
    b"\xff",
    b'"',
    b",",
    b"\n",
    b"-1",
    b"1e999",
    b"nan",
    b"[",
    b"}",
    b"null",
    b"9" * 400,
    b"\r",
    b"\xe2\x98",
)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Some bytes replaced, removed or repeated."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        until = min(len(found), at + rng.choice((0, 1, 3, 30)))
        found[at:until] = rng.choice((*JUNK, bytes(found[at:until]) * 2))
    return bytes(found)


@pytest.mark.parametrize("name", ["openb", "pai", "philly", "helios", "spot", "azure"])
@pytest.mark.parametrize("skip_broken", [False, True])
def test_a_damaged_trace_is_read_or_refused(tmp_path: Path, name: str, skip_broken: bool) -> None:
    rng = random.Random(f"{name}/{skip_broken}")
    if name == "azure":
        requests = [(number, 1, number % 3, number % 2, number - 2.5, number * 2.0) for number in range(40)]
        azure(tmp_path / "source", requests, [(n, n, 1, 0.5, 0.25) for n in range(3)])
        sources = {"trace.sqlite": (tmp_path / "source").read_bytes()}
    else:
        sources = {path.name: path.read_bytes() for path in (TRACES / name).iterdir()}
    folder = tmp_path / "trace"
    folder.mkdir()
    outcomes = set()
    for _ in range(30):
        for file, content in sources.items():
            (folder / file).write_bytes(mutated(content, rng) if rng.random() < 1.2 / len(sources) else content)
        try:
            found = load(folder, name, skip_broken=skip_broken)
        except TraceError as error:
            outcomes.add("refused")
            assert str(error)
        else:
            outcomes.add("read")
            assert all(job.arrival >= 0 and (job.seconds is None or job.seconds >= 0) for job in found.jobs)
            assert len({job.name for job in found.jobs}) == len(found.jobs)
    assert "read" in outcomes
    assert "refused" in outcomes
