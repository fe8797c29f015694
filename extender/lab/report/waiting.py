"""Why jobs of a run never started: the reasons that most of them were given last, with a job for each."""

from __future__ import annotations

from extender.lab.report.units import count
from extender.lab.results import JobResult, Run

#: Reasons that are named, and characters of the text of one.
MOST_REASONS, MOST_CHARACTERS = 3, 300


def why_never_started(run: Run) -> list[str]:
    """Return a sentence for each of the most frequent reasons, none if every job started or none says why."""
    by_code: dict[str, list[JobResult]] = {}
    for job in run.jobs:
        if job.start is None and (job.code or job.text):
            by_code.setdefault(job.code, []).append(job)
    frequent = sorted(by_code.values(), key=len, reverse=True)
    more = [f"and {count(len(frequent) - MOST_REASONS)} more reasons"] if len(frequent) > MOST_REASONS else []
    return [*map(_sentence, frequent[:MOST_REASONS]), *more]


def _sentence(jobs: list[JobResult]) -> str:
    first = jobs[0]
    why = ": ".join(part for part in (first.code, first.text) if part)
    cut = why if len(why) <= MOST_CHARACTERS else f"{why[:MOST_CHARACTERS]}..."
    who = f"job {first.name}" if len(jobs) == 1 else f"{count(len(jobs))} jobs, such as {first.name},"
    return f"{who} never started: {cut}"
