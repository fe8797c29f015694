"""The output of `waggle demo --vpods`: a live table of the pods, and at the end the laws and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from extender.demo.cast import Cast
from extender.demo.own_command import own_command
from extender.demo.vpods.fleet import CAPACITY, NAMESPACE, SET, STATEFUL_SET, VPODS
from extender.logs.printable import printable
from extender.operate.output import as_markup

_STYLES = {"usable": "", "resting": "yellow", "closed": "magenta", "leaving": "cyan", "absent": "dim"}
_FULL, _EMPTY = "█", "░"


@dataclass
class Scene:
    """The state to show. `found`: Waggle's answer about the set; empty while it does not answer."""

    title: str = ""
    found: Mapping[str, Any] = field(default_factory=dict)
    is_down: bool = False
    faults: int = 0
    moves: int = 0


def live_table(scene: Scene) -> Group:
    """Return the table of the present state: a row for each pod."""
    table = Table(title=f"  {printable(scene.title)}", title_justify="left", title_style="bold")
    for name in ("pod", "node", "zone"):
        table.add_column(name)
    table.add_column("vreplicas", min_width=CAPACITY + 4)
    table.add_column("state", min_width=28)
    for pod in scene.found.get("pods", ()):
        held = min(CAPACITY, pod["held"])
        bar = f"{_FULL * held}{_EMPTY * (CAPACITY - held)} {pod['held']:>2}"
        state = f"{pod['state']}: {pod['why']}" if pod["why"] else pod["state"]
        cells = (pod["name"], pod["node"], pod["zone"], bar, state)
        table.add_row(*(printable(cell) for cell in cells), style=_STYLES.get(pod["state"], ""))
    return Group(table, *_lines(scene))


def _lines(scene: Scene) -> list[Text]:
    lines = []
    if sums := scene.found.get("sums"):
        text = (
            f"  {sums['vpods']} vpods want {sums['expected']} vreplicas: {sums['placed']} have a pod, {sums['free']} "
            f"more would fit; {scene.moves} moved so far; {scene.faults} faults"
        )
        lines.append(Text(text))
    if scene.is_down:
        lines.append(Text("  Waggle is down: vreplicas stay where they are", style="red"))
    return [Text(line.plain, style=line.style, no_wrap=True, overflow="ellipsis") for line in lines]


@dataclass(frozen=True)
class Verdict:
    """The result of the demo, from what the API server wrote. `wrong` is empty if every law held."""

    wrong: Sequence[str]
    versions: int
    moves: int
    faults: int
    largest: int
    smallest: int


def show_verdict(console: Console, verdict: Verdict, seconds: float) -> None:
    """Print each law with its numbers, then whether all of them held."""
    console.print(
        f"\nThe API server wrote {verdict.versions} versions of {len(VPODS)} vpods and of the StatefulSet, which had "
        f"{verdict.smallest} to {verdict.largest} pods. {verdict.moves} vreplicas moved."
    )
    if not verdict.wrong:
        console.print(
            f"In none of them did a pod hold more than {CAPACITY} vreplicas, and no pod was taken away before it was "
            "empty."
        )
    for text in verdict.wrong:
        console.print(f"[red]✗[/red] {as_markup(text)}")
    if verdict.wrong:
        console.print(f"[red]✗ Not all ended as it should[/red] ({seconds:.1f} s).")
        return
    faults = f"{verdict.faults} fault{'' if verdict.faults == 1 else 's'}"
    console.print(
        f"[green]✓ All ended as it should[/green] in {seconds:.1f} s: every vreplica has a pod, evenly; {faults} and a "
        "crash survived."
    )


def show_stay(console: Console, cast: Cast) -> None:
    """Print lines that work while the demo stays up."""
    console.print(f"\nThe pods and what they host, as a picture: [bold]{cast.url}/ui[/bold]", soft_wrap=True)
    console.print("\nEverything stays up until Ctrl-C. Try in another terminal:\n")
    for what, line in (*_waggle_lines(cast), *(_kubectl_lines(cast) if cast.kubectl else _curl_lines(cast))):
        console.print(f"  [dim]# {what}[/dim]")
        console.print(f"  {as_markup(line)}", soft_wrap=True)


def _waggle_lines(cast: Cast) -> tuple[tuple[str, str], ...]:
    name, waggle, vpod = f"{NAMESPACE}/{SET}", own_command(), next(iter(VPODS))
    return (
        ("the set: its pods and vpods", f"{waggle} vpods show {name} --server {cast.url}"),
        (
            "what would happen, and why, if a vpod wanted 60 vreplicas",
            f"{waggle} vpods plan {name} --vreplicas {vpod}=60 --server {cast.url}",
        ),
        ("why a vpod is where it is", f"{waggle} vpods explain {name} {vpod} --server {cast.url}"),
        ("the same as JSON", f"curl {cast.url}/v1/vpods/{name}"),
        ("metrics", f"curl -s {cast.url}/metrics | grep waggle_vpods"),
    )


def _kubectl_lines(cast: Cast) -> tuple[tuple[str, str], ...]:
    kubectl, vpod = f"{cast.kubectl} --kubeconfig {cast.kubeconfig} -n {NAMESPACE}", next(iter(VPODS))
    return (
        ("the vpods", f"{kubectl} get vpods"),
        ("more of one: the StatefulSet grows if it has to", f"{kubectl} scale vpod {vpod} --replicas=40"),
        ("until all of them have a pod", f"{kubectl} wait --for=condition=Scheduled vpod/{vpod}"),
        ("take a node out of service", f"{kubectl} cordon node-1"),
        ("the pods of the StatefulSet", f"{kubectl} get pods -o wide"),
    )


def _curl_lines(cast: Cast) -> tuple[tuple[str, str], ...]:
    return (("the StatefulSet, at the API server", f"curl {cast.cluster_url}{STATEFUL_SET}"),)
