"""Results as JSON: in pieces they are the same bytes as in one, and take no more memory for more jobs."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from extender.lab.results import (
    Ended,
    Group,
    JobResult,
    Measures,
    Point,
    Results,
    Run,
    Series,
    Spread,
    Stay,
    decode,
    encode,
    pieces,
)

MEASURES = Measures(
    makespan=1.5,
    until=2.0,
    all=Group(name="all", jobs=1, done=1, never_started=0, delay=Spread(jobs=1, mean=1 / 3), completion=Spread()),
    tenants=(),
    sizes=(),
)
POINT = Point(*(float(n) for n in range(12)), 1, 2, 3, 4)


def job(number: int) -> JobResult:
    return JobResult(
        name=f'"{number}"\n{{\u2028é', tenant="" if number % 3 else "t", arrival=number / 7, text="a: [\n1,\n2]"
    )


def run(jobs: int, stays: int = 0) -> Run:
    return Run(
        name="a\nb",
        algorithm="packing",
        jobs=tuple(map(job, range(jobs))),
        series=Series(1.0, (POINT, POINT)),
        measures=MEASURES,
        remarks=("one", "two\n"),
        stays=tuple(Stay(job="j", pod=n, node="n", start=0.0, end=1e-9, ended=Ended.CUT) for n in range(stays)),
    )


@pytest.mark.parametrize(
    "runs",
    [(), (run(0),), (run(1, 1),), (run(999), run(1000), run(1001, 2001)), (run(2500, 3), run(0, 1))],
    ids=lambda runs: str([len(each.jobs) for each in runs]),
)
def test_the_pieces_are_what_msgspec_would_write_at_once(runs: tuple[Run, ...]) -> None:
    results = Results(workload="w", jobs=3, remarks=("r",), runs=runs)

    assert encode(results) == msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"
    assert decode(encode(results)) == results


def test_each_piece_is_text_by_itself_and_has_a_bound() -> None:
    made = list(pieces(Results(runs=(run(5000, 5000),))))

    assert max(map(len, made)) < 400_000
    assert "".join(piece.decode() for piece in made).encode() == b"".join(made)


def test_the_memory_for_them_does_not_grow_with_the_jobs() -> None:
    def peak(jobs: int) -> int:
        # Plain names: Python keeps the UTF-8 of others in the text itself.
        made = tuple(JobResult(name=f"j{number}", arrival=number / 7) for number in range(jobs))
        results = Results(runs=(Run(name="r", algorithm="packing", jobs=made, measures=MEASURES),))
        tracemalloc.start()
        try:
            for _ in pieces(results):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(40_000) < 1.2 * peak(10_000)
