"""What the demo shows at its end: who runs where, who waits and exactly why, and whether the books agree.

The claims are checked against the API server, not against what Waggle says of itself.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from algorithm.quantity import parse_quantity
from algorithm.reasons import Code
from extender.demo.cast import Cast
from extender.demo.own_command import own_command
from extender.demo.workloads import GPU, GPUS_PER_NODE, Act, Object
from extender.operate.output import as_markup
from extender.scheduling.reads import GANG_ANNOTATION

_DEVICES = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"


class Outlook:
    """The state of the cluster at the end, as the API server and as Waggle see it; `wrong` is what does not agree."""

    def __init__(self, cast: Cast, play: list[Act], *, gangs: bool = True) -> None:
        """`gangs`: the algorithm promises that a gang runs whole or not at all."""
        self.play = play
        self.gangs = gangs
        self.pods = cast.pods()
        self.faults = cast.faults_fired()
        self.waiting: list[Any] = cast.waggle("/v1/inspect/pods?state=Waiting")["items"]
        self.explained = {item["name"]: _advice(cast, item) for item in self._one_for_each_reason()}
        known: list[Any] = cast.waggle("/v1/inspect/pods")["items"]
        self.wrong = [*self._overcommitted(), *(self._split_gangs() if gangs else ()), *self._disagreements(known)]

    def _one_for_each_reason(self) -> list[Any]:
        return list({item["reason"]["text"]: item for item in sorted(self.waiting, key=_name, reverse=True)}.values())

    def gpus_by_node(self) -> Counter[str]:
        used: Counter[str] = Counter()
        for pod in self.pods.values():
            used[pod["spec"].get("nodeName", "")] += _gpus(pod)
        del used[""]
        return used

    def _overcommitted(self) -> list[str]:
        return [
            f"node {name} has {used} of {GPUS_PER_NODE} GPUs in use"
            for name, used in sorted(self.gpus_by_node().items())
            if used > GPUS_PER_NODE
        ]

    def _split_gangs(self) -> list[str]:
        placed: Counter[str] = Counter()
        minimum: dict[str, int] = {}
        for pod in self.pods.values():
            annotations = pod["metadata"].get("annotations") or {}
            gang = annotations.get(GANG_ANNOTATION)
            if gang:
                placed[gang] += bool(pod["spec"].get("nodeName"))
                minimum[gang] = int(annotations.get(f"{GANG_ANNOTATION}-min", "1"))
        return [
            f"gang {gang} is split: {placed[gang]} of its pods run, it needs {wanted}"
            for gang, wanted in sorted(minimum.items())
            if 0 < placed[gang] < wanted
        ]

    def _disagreements(self, known: list[Any]) -> list[str]:
        seen = {item["name"]: item.get("node") or "" for item in known}
        real = {name: pod["spec"].get("nodeName", "") for name, pod in self.pods.items()}
        return [
            f"pod {name}: the cluster has it on {real.get(name)!r}, Waggle on {seen.get(name)!r}"
            for name in sorted(seen.keys() | real.keys())
            if seen.get(name) != real.get(name)
        ]


def _advice(cast: Cast, item: Any) -> str:
    """What the algorithm says about a pod that waits; empty if it says nothing."""
    return " ".join(cast.waggle(f"/v1/explain/{item['namespace']}/{item['name']}")["advice"])


def _name(item: Any) -> str:
    return str(item["name"])


def show_report(console: Console, outlook: Outlook) -> None:
    console.print()
    console.print(_who_runs_where(outlook))
    if outlook.waiting:
        console.print(_who_waits_and_why(outlook))


def _who_runs_where(outlook: Outlook) -> Table:
    table = Table(title="Who runs where", title_justify="left", title_style="bold")
    for column, justify in (("workload", "left"), ("pods", "right"), ("run", "right"), ("wait", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    table.add_column("gone", justify="right")
    table.add_column("nodes (pods on each)")
    for act in outlook.play:
        if not act.pods:
            continue
        mine = [outlook.pods[name] for name in act.pods if name in outlook.pods]
        nodes = Counter(pod["spec"].get("nodeName", "") for pod in mine)
        waiting = nodes.pop("", 0)
        run, gone = len(mine) - waiting, len(act.pods) - len(mine)
        cells = [str(len(act.pods)), str(run), str(waiting or ""), str(gone or "")]
        table.add_row(as_markup(act.name), *cells, _node_list(nodes))
    used = sum(outlook.gpus_by_node().values())
    table.caption = f"{used} GPUs in use; gone: evicted for pods of higher priority"
    table.caption_justify = "left"
    return table


def _node_list(nodes: Counter[str], most: int = 6) -> str:
    shown = [as_markup(f"{name} ({count})") for name, count in sorted(nodes.items())]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def _who_waits_and_why(outlook: Outlook) -> Table:
    table = Table(title="Who waits, and exactly why", title_justify="left", title_style="bold")
    table.add_column("pods", justify="right")
    table.add_column("such as")
    table.add_column("code")
    table.add_column("reason", overflow="fold")
    groups: dict[tuple[str, str], list[str]] = {}
    for item in outlook.waiting:
        why = item["reason"]
        groups.setdefault((why["code"], item["summary"]), []).append(item["name"])
    for (code, text), names in sorted(groups.items()):
        shown = (min(names), code, outlook.explained.get(min(names)) or text)
        table.add_row(str(len(names)), *map(as_markup, shown))
    return table


def show_farewell(console: Console, well: bool, outlook: Outlook, seconds: float) -> None:
    console.print()
    for text in outlook.wrong:
        console.print(f"[red]✗[/red] {as_markup(text)}")
    if well:
        gangs = "no gang split, " if outlook.gangs else ""
        faults = f"{outlook.faults} fault{'' if outlook.faults == 1 else 's'}"
        console.print(
            f"[green]✓ All ended as it should[/green] in {seconds:.1f} s: no node over-committed, {gangs}"
            f"every pod where Waggle says it is, {faults} survived."
        )
    else:
        console.print(f"[red]✗ Not all ended as it should[/red] ({seconds:.1f} s).")


def show_stay(console: Console, cast: Cast, outlook: Outlook) -> None:
    """Lines that work while the demo stays up."""
    asked = [item["name"] for item in outlook.waiting if item["reason"]["code"] != Code.NOT_ASKED]
    waiting = min(asked, default=min(outlook.pods))
    waggle = own_command()
    console.print(f"\nThe nodes, and who waits and why, as a picture: [bold]{cast.url}/ui[/bold]", soft_wrap=True)
    lines = (
        ("is it ready", f"curl {cast.url}/readyz"),
        ("who waits, and why", f"curl '{cast.url}/v1/inspect/pods?state=Waiting'"),
        ("the cluster in a screenful", f"{waggle} top --server {cast.url}"),
        ("why this one waits, and what would help", f"{waggle} explain {waiting} --server {cast.url}"),
        ("everything about one pod", f"curl {cast.url}/v1/explain/default/{waiting}"),
        ("the nodes as Waggle counts them", f"curl {cast.url}/v1/inspect/nodes"),
        ("what the algorithm holds", f"curl {cast.url}/v1/inspect/algorithm"),
        ("metrics", f"curl {cast.url}/metrics"),
        *(_kubectl_lines(cast, outlook, waiting) if cast.kubectl else _curl_lines(cast, outlook)),
    )
    console.print("\nEverything stays up until Ctrl-C. Try in another terminal:\n")
    for what, line in lines:
        console.print(f"  [dim]# {what}[/dim]")
        console.print(f"  {as_markup(line)}", soft_wrap=True)


def _kubectl_lines(cast: Cast, outlook: Outlook, waiting: str) -> tuple[tuple[str, str], ...]:
    kubectl = f"{cast.kubectl} --kubeconfig {cast.kubeconfig}"
    return (
        ("the cluster itself, as any other", f"{kubectl} get pods -o wide"),
        ("what kube-scheduler and Waggle said about a pod", f"{kubectl} describe pod {waiting}"),
        ("end a pod, and see who takes its place", f"{kubectl} delete pod {_large_pod(outlook)}"),
    )


def _curl_lines(cast: Cast, outlook: Outlook) -> tuple[tuple[str, str], ...]:
    pod = f"{cast.cluster_url}/api/v1/namespaces/default/pods/{_large_pod(outlook)}"
    return (
        ("the cluster itself", f"curl {cast.cluster_url}/api/v1/pods"),
        ("end a pod, and see who takes its place", f"curl -X DELETE {pod}"),
    )


def _large_pod(outlook: Outlook) -> str:
    running = sorted(name for name, pod in outlook.pods.items() if pod["spec"].get("nodeName") and _gpus(pod) >= 4)
    return running[0] if running else "NAME"


def _gpus(pod: Object) -> int:
    """What it asks of kube-scheduler, or the devices that HiveD gave it."""
    given = (pod["metadata"].get("annotations") or {}).get(_DEVICES)
    if given:
        return len(given.split(","))
    return sum(
        parse_quantity(container.get("resources", {}).get("requests", {}).get(GPU, "0"))
        for container in pod["spec"]["containers"]
    )
