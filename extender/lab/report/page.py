"""Results of a simulation as one HTML page: figures, all measures, what they mean, and how to repeat it.

The page is complete: it loads nothing and runs nothing, and its Content-Security-Policy says so. All text from outside
is escaped and cut. Its size does not grow with the jobs: lines have at most 240 points, bars at most eight groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources

from extender.lab.report import figures
from extender.lab.report.comparing import sentences, table
from extender.lab.report.plot import dash, look, text
from extender.lab.report.units import count, duration
from extender.lab.report.waiting import why_never_started
from extender.lab.results import Results, Run

#: Runs, remarks and characters of a remark that are shown.
MOST_RUNS, MOST_REMARKS, LONGEST_REMARK = 16, 60, 1000

_CARDS: tuple[tuple[str, str, Callable[[Sequence[Run]], str | None]], ...] = (
    (
        "Queueing delay",
        "How many of all jobs have started after a time of waiting. Further up and left is better.",
        figures.delays,
    ),
    (
        "Use over time",
        "Jobs that run, as a share of what is there. Gangs that wait for more of their pods do not run.",
        figures.utilisation,
    ),
    ("Waiting over time", "Jobs that have arrived but not started, or must restart.", figures.waiting),
    (
        "Fragmentation over time",
        "GPUs that are free, but in pieces that a typical pod of this workload cannot use.",
        figures.fragmentation,
    ),
    (
        "Delay by tenant",
        "Mean delay as a bar; the thin line ends at the delay that 90 % do not exceed.",
        figures.by_tenant,
    ),
    ("Delay by size", "The same by GPUs of the whole job.", figures.by_size),
    ("Interruptions", "Jobs that had to begin again, and what was lost with them.", figures.interruptions),
    ("Fairness", "Jain's index of the tenants' mean slowdowns: 1, all are slowed down alike.", figures.fairness),
)

_DEFINITIONS = (
    (
        "Queueing delay",
        "From the arrival of a job until the last of its pods has a place for the first time, of a gang: until all of "
        "them have places at the same time. Jobs that never started have none: the curve of such a run ends below "
        "100 %.",
    ),
    ("Completion time", "From the arrival of a job to its end, restarts included. Only of jobs that were done."),
    (
        "Slowdown",
        "Completion time over run time; runs of less than ten seconds count as ten (bounded slowdown, Feitelson "
        "et al., 1997). The mean over jobs that were done.",
    ),
    (
        "Fairness",
        "Jain's index of the tenants' mean slowdowns (Jain, Chiu and Hawe, 1984): 1, all alike; 1 / number of "
        "tenants, one bears everything.",
    ),
    (
        "Allocated, used",
        "GPU time that pods took, and of it that of runs that were not lost, of the GPU time of all nodes "
        "while they were there, until the last job of this run ended: a run that ends earlier has fewer hours to fill.",
    ),
    (
        "Fragmented",
        "GPUs that are free and could not be used by a pod drawn from the workload, on average (Weng et al., "
        "USENIX ATC 2023).",
    ),
    ("Lost work", "GPU time of runs that had to begin again because of an eviction or a failed node."),
    ("Percentiles", "The smallest value that so many per cent of the jobs do not exceed."),
    (
        "Best",
        "The best value in a row, as it is printed; nothing is marked if all are alike. Allocation alone is neither "
        "good nor bad.",
    ),
)


def page_of(results: Results, *, command: str = "") -> str:
    """Return the page. `command` is what to type to get the same results."""
    runs = results.runs[:MOST_RUNS]
    title = f"Simulation of {results.workload or 'a workload'}"
    body = [_head(results, title), *_warnings(results, runs)]
    if runs:
        body.append(f"<h2>In short</h2>{_list(sentences(runs) or [_nothing_in_short(runs)])}")
    body += ["<h2>Figures</h2>", _legend(runs), _figures(runs), "<h2>All measures</h2>"]
    body.append(f'<div class="scroll" role="region" aria-label="All measures" tabindex="0">{table(runs)}</div>')
    body += ["<h2>What is measured</h2>", _definitions(), "<h2>Repeat it</h2>", _repeat(results, runs, command)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title, 100)}</title><style>{_style()}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _style() -> str:
    return resources.files("extender.lab.report").joinpath("style.css").read_text(encoding="utf-8")


def _head(results: Results, title: str) -> str:
    facts = [(count(results.jobs), "jobs"), (count(results.pods), "pods"), (count(results.nodes), "nodes")]
    if results.gpu_milli:
        facts.append((count(results.gpu_milli // 1000), "GPUs"))
    if results.cpu_milli:
        facts.append((count(results.cpu_milli // 1000), "cores"))
    until = max((run.measures.until for run in results.runs), default=0.0)
    facts.append((duration(until), "simulated"))
    shown = "".join(f"<li><b>{value}</b>{name}</li>" for value, name in facts)
    names = [run.name for run in results.runs]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    lead = f"The same jobs on the same nodes under {listed}."
    return (
        f'<header><h1>{text(title, 100)}</h1><p class="lead">{text(lead, 400)}</p>'
        f'<ul class="facts">{shown}</ul></header>'
    )


def _warnings(results: Results, runs: Sequence[Run]) -> list[str]:
    """What a reader has to know before comparing."""
    found = [f"{run.name} did not run to its end: {run.stopped}" for run in runs if run.stopped]
    if results.horizon is not None:
        found.append(
            f"The simulation was cut after {duration(results.horizon)}; jobs that ran or waited then are not done."
        )
    never = {run.measures.all.never_started for run in runs}
    if len(never) > 1:
        found.append(
            "Different numbers of jobs never started. They have no delay, so compare delays together with them."
        )
    if len(results.runs) > len(runs):
        found.append(f"Only the first {len(runs)} of {len(results.runs)} runs are shown.")
    return [f'<p class="warn">{text(each, LONGEST_REMARK)}</p>' for each in found]


def _nothing_in_short(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return f"Only {runs[0].name} ran, so there is nothing to compare it with."
    return (
        "In none of queueing delay, use of GPUs, lost work and fairness, as far as they can be measured here, is one "
        "run better than another."
    )


def _legend(runs: Sequence[Run]) -> str:
    """Names, colours and dashes; it stays in sight."""
    items = "".join(
        f'<li><svg viewBox="0 0 30 10" aria-hidden="true">'
        f'<path class="line {look(number)}"{dash(number)} d="M0 5H30"/></svg>'
        f"{text(run.name, 40)}{_same(run)}</li>"
        for number, run in enumerate(runs)
    )
    return f'<ul class="legend" aria-label="Runs">{items}</ul>'


def _same(run: Run) -> str:
    return "" if run.name == run.algorithm else f" <small>{text(run.algorithm, 60)}</small>"


def _figures(runs: Sequence[Run]) -> str:
    cards = [
        f'<figure class="card"><figcaption><h3>{name}</h3><p>{words}</p></figcaption>{inside}</figure>'
        for name, words, make in _CARDS
        if (inside := make(runs)) is not None
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _definitions() -> str:
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{text(words, 1000)}</dd>' for name, words in _DEFINITIONS)}</dl>"


def _repeat(results: Results, runs: Sequence[Run], command: str) -> str:
    seeds = ", ".join(sorted({str(run.seed) for run in runs}))
    facts = [f"Waggle {results.release}" if results.release else "", f"seed {seeds}" if seeds else ""]
    shown = f"<pre>{text(command, 4000)}</pre>" if command else ""
    made = f"Made by {', '.join(each for each in facts if each)}. " if any(facts) else ""
    said = [(run, (*why_never_started(run), *run.remarks)) for run in runs]
    remarks = [*results.remarks, *(f"{run.name}: {each}" for run, remarks in said for each in remarks)]
    if len(remarks) > MOST_REMARKS:
        remarks = [*remarks[:MOST_REMARKS], f"{len(remarks) - MOST_REMARKS} more remarks are left out."]
    below = f"<h3>Assumed and left out</h3>{_list(remarks)}" if remarks else ""
    return f"{shown}<p>{text(made, 200)}The same workload, options and seed give the same results.</p>{below}"


def _list(sentences_: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(each, LONGEST_REMARK)}</li>' for each in sentences_)}</ul>"
