"""What came out: a table for people, JSON for machines, and the aims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.report import Aim, show_aims
from tests.bench.vpods.decisions import STEPS, Decisions
from tests.bench.vpods.moves import Moves
from tests.bench.vpods.served import Served
from tests.bench.vpods.start import Start
from tests.bench.vpods.workload import Size, recorded

#: The size that has aims, and the most CPU microseconds of a call there.
AIMED_AT = Size(1000, 200, 200)
MOST_US = {"no_change": 200.0, "churn": 1000.0, "autoscaler": 500.0}
#: Seconds until a server is ready with all vpods, and its memory then, MiB.
MOST_START, MOST_MIB = 3.0, 300.0


@dataclass(frozen=True)
class Figures:
    """Everything that was measured."""

    decisions: Sequence[Decisions]
    moves: Sequence[Moves]
    start: Start
    served: Served | None = None


def aims(figures: Figures) -> list[Aim]:
    """What these figures are held against."""
    found = []
    heads = [each for each in figures.decisions if each.as_recorded is not None]
    if heads:
        other = sum(not each.as_recorded for each in heads)
        found.append(Aim(f"head: digests that differ from the original's, of {len(heads)}", other, "0", other == 0))
    for each in figures.decisions:
        for step, most in MOST_US.items() if each.size == AIMED_AT else ():
            value = each.best(step)
            what = f"{each.policy}, {each.size}: {_words(step)}, CPU us"
            found.append(Aim(what, value, f"at most {most:g}", value <= most))
    for moved in figures.moves:
        what = f"{moved.policy}: moves after a change of leader"
        found.append(Aim(what, moved.after_leader, "0", moved.after_leader == 0))
        if moved.policy == "balanced":
            what, least = f"{moved.policy}: moves to balance over one pod more", moved.minimum
            found.append(Aim(what, moved.after_pod, f"the minimum, {least}", moved.after_pod == least))
            found.append(Aim(f"{moved.policy}: vpods uneven after that", moved.uneven, "0", moved.uneven == 0))
    began = figures.start
    what = f"engine, {began.vpods:,} vpods x {began.pods} pods: start, CPU s"
    found.append(Aim(what, began.seconds, f"at most {MOST_START:g}", began.seconds <= MOST_START))
    found.append(Aim("engine: writes at a start where nothing changed", began.writes, "0", began.writes == 0))
    return found + (_served_aims(figures.served) if figures.served else [])


def _served_aims(served: Served) -> list[Aim]:
    name = f"server, {served.vpods:,} vpods x {served.pods} pods"
    return [
        Aim(f"{name}: ready, s", served.seconds, f"at most {MOST_START:g}", served.seconds <= MOST_START),
        Aim(f"{name}: memory, MiB", served.mebibytes, f"at most {MOST_MIB:g}", served.mebibytes <= MOST_MIB),
        Aim(f"{name}: writes where nothing changed", served.writes, "0", served.writes == 0),
    ]


def show(console: Console, figures: Figures) -> None:
    """The tables and the aims."""
    table = Table(
        "vpods",
        "pods",
        "wanted",
        "scheduler",
        title="decisions",
        title_justify="left",
        caption="CPU us per call, best round; in brackets until the write is sent, without its confirmation",
    )
    for step in STEPS:
        table.add_column(_words(step), justify="right")
    table.add_column("digest")
    for size in dict.fromkeys(each.size for each in figures.decisions):
        table.add_section()
        original = recorded()[size]
        names = (f"{size.vpods:,}", str(size.pods), f"1..{size.most}")
        table.add_row(*names, "original", *(f"{original.steps[step]:,.0f}" for step in STEPS), original.digest)
        for each in (each for each in figures.decisions if each.size == size):
            cells = (f"{each.best(step):,.0f} ({each.best_sent(step):,.0f})" for step in STEPS)
            digest = {None: "", True: "the same", False: each.digest}[each.as_recorded]
            table.add_row("", "", "", each.policy, *cells, digest)
    console.print(table)
    table = Table("scheduler", title="moves", title_justify="left", caption="vreplicas that left their pod")
    for title in ("vreplicas", "change of leader", "one pod more", "minimum", "uneven vpods then"):
        table.add_column(title, justify="right")
    for moved in figures.moves:
        numbers = (moved.vreplicas, moved.after_leader, moved.after_pod, moved.minimum, moved.uneven)
        table.add_row(moved.policy, *(f"{number:,}" for number in numbers))
    console.print(table)
    if figures.served:
        console.print(f"server: {figures.served.cpu:.2f} s of CPU until every vpod is decided about", highlight=False)
    show_aims(console, aims(figures))


def _words(step: str) -> str:
    return step.replace("_", " ")


def as_json(figures: Figures) -> dict[str, Any]:
    """Every figure with its rounds, and the aims. CPU seconds."""
    return {
        "decisions": [
            {
                "vpods": each.size.vpods,
                "pods": each.size.pods,
                "most": each.size.most,
                "policy": each.policy,
                "sent": each.sent,
                "whole": each.whole,
                "original_us": recorded()[each.size].steps,
                "digest": each.digest,
                "as_recorded": each.as_recorded,
            }
            for each in figures.decisions
        ],
        "moves": [asdict(each) for each in figures.moves],
        "start": asdict(figures.start),
        "served": asdict(figures.served) if figures.served else None,
        "aims": [asdict(aim) for aim in aims(figures)],
    }
