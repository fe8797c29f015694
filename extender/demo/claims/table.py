"""The output of `waggle demo --claims`: a live table of the pools, and at the end the numbers and the result."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from extender.demo.cast import Cast
from extender.demo.claims.books import Books, percentile
from extender.demo.claims.pools import NAMESPACE, POOLS
from extender.demo.own_command import own_command
from extender.logs.printable import printable
from extender.operate.output import as_markup
from extender.resources.shared import API_VERSION

#: Seconds over which rates and percentiles of the live table are taken.
_LATELY = 3.0
#: A claim as an object, on one line.
_CLAIM = json.dumps(
    {
        "apiVersion": API_VERSION,
        "kind": "Claim",
        "metadata": {"name": "mine"},
        "spec": {"poolRef": {"name": POOLS[0].name}},
    }
)


@dataclass
class Scene:
    """The state to show. `pools`: the items of /v1/pools by name; empty while Waggle does not answer."""

    books: Books
    title: str = ""
    pools: dict[str, Any] = field(default_factory=dict)
    is_down: bool = False
    faults: int = 0


def live_table(scene: Scene) -> Group:
    """Return the table of the present state."""
    table = Table(title=f"  {printable(scene.title)}", title_justify="left", title_style="bold")
    table.add_column("pool")
    for name in ("idle", "claimed", "starting", "waiting", "claims/s", "p50 ms", "p99 ms", "failed"):
        table.add_column(name, justify="right", min_width=6)
    since = time.monotonic() - _LATELY
    for pool in POOLS:
        found, took = scene.pools.get(pool.name, {}), scene.books.answers(since, pool.name)
        failed = sum(scene.books.numbers(pool.name).failed.values())
        coming = found.get("unready", 0) + found.get("starting", 0) + found.get("stopping", 0)
        shown = [found.get("idle"), found.get("claimed"), coming if found else None, found.get("pending")]
        cells = ["?" if each is None else str(each) for each in shown]
        table.add_row(pool.name, *cells, f"{len(took) / _LATELY:.0f}", *_percentiles(took), str(failed or ""))
    return Group(table, *_lines(scene))


def _lines(scene: Scene) -> list[Text]:
    numbers = scene.books.numbers()
    law = (
        f"  {numbers.asked} asked = {numbers.claimed} claimed + {sum(numbers.failed.values())} failed "
        f"+ {numbers.left} left + {numbers.pending} pending; {scene.faults} faults so far"
    )
    lines = [Text(law)]
    if scene.is_down:
        lines.append(Text("  Waggle is down: the callers retry", style="red"))
    for name, found in scene.pools.items():
        queue = ", ".join(
            f"{each['tenant']} {each['waiting']}" for each in found.get("tenants", ()) if each.get("waiting")
        )
        if queue:
            lines.append(Text(f"  {name}: {queue} wait: {printable(found['first_waits'])}", style="yellow"))
    return [Text(line.plain, style=line.style, no_wrap=True, overflow="ellipsis") for line in lines]


def _percentiles(took: list[float]) -> tuple[str, str]:
    found = (percentile(took, 0.5), percentile(took, 0.99))
    return tuple("" if each is None else milliseconds(each) for each in found)  # type: ignore[return-value]


def milliseconds(seconds: float) -> str:
    """Return the text of a duration in milliseconds."""
    return f"{seconds * 1000:.0f}" if seconds >= 0.01 else f"{seconds * 1000:.1f}"


def act_summary(books: Books, since: float) -> str:
    """Return how many claims succeeded since `since`, and how fast."""
    took = books.answers(since)
    if not took:
        return "no claims"
    middle, late = _percentiles(took)
    return f"{len(took)} claims, p50 {middle} ms, p99 {late} ms"


@dataclass(frozen=True)
class Verdict:
    """The result of the demo, checked against the API server. `wrong` is empty if every invariant held."""

    books: Books
    wrong: Sequence[str]
    faults: int
    #: How often every pod that a caller had was compared with the API server.
    looks: int
    #: How often Waggle's numbers were checked: accepted = claimed + failed + pending in every pool.
    own_looks: int
    #: Claimed pods at the API server, and idle pods.
    claimed: int
    idle: int


def show_verdict(console: Console, verdict: Verdict, seconds: float) -> None:
    """Print the numbers of the pools, then each invariant with its numbers, then whether all of them held."""
    console.print()
    console.print(_numbers(verdict.books))
    numbers = verdict.books.numbers()
    failed = sum(numbers.failed.values())
    console.print(
        f"\nEvery request ended once: {numbers.asked} asked = {numbers.claimed} claimed + {failed} failed "
        f"+ {numbers.left} whose caller disconnected + {numbers.pending} pending."
    )
    if verdict.wrong:
        console.print(
            f"Waggle's own numbers were read {verdict.own_looks} times. {verdict.books.pods} pods were handed out; "
            f"{verdict.looks} comparisons with the API server."
        )
    else:
        console.print(
            f"Waggle's own numbers were read {verdict.own_looks} times, and each time added up (accepted = claimed + "
            "failed + pending)."
        )
        console.print(
            f"{verdict.books.pods} pods were handed out, none to two callers at the same time. {verdict.looks} times, "
            "each pod that a caller had was compared with the API server: it belonged to that caller's claim."
        )
    console.print(f"The API server now has {verdict.claimed} claimed pods and {verdict.idle} idle ones.")
    for text in verdict.wrong:
        console.print(f"[red]✗[/red] {as_markup(text)}")
    if verdict.wrong:
        console.print(f"[red]✗ Not all ended as it should[/red] ({seconds:.1f} s).")
        return
    faults = f"{verdict.faults} fault{'' if verdict.faults == 1 else 's'}"
    console.print(
        f"[green]✓ All ended as it should[/green] in {seconds:.1f} s: no request lost, no pod given away twice, "
        f"nothing left claimed; {faults} and a crash survived."
    )


def _numbers(books: Books) -> Table:
    table = Table(title="Claims by pool, and how fast they were", title_justify="left", title_style="bold")
    table.add_column("pool")
    for name in ("asked", "claimed", "left", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    table.add_column("failed")
    for pool in POOLS:
        numbers, took = books.numbers(pool.name), books.answers(0.0, pool.name)
        failed = ", ".join(f"{code} {count}" for code, count in sorted(numbers.failed.items()))
        cells = [str(numbers.asked), str(numbers.claimed), str(numbers.left)]
        table.add_row(f"{pool.name} ({pool.mode})", *cells, *_percentiles(took), as_markup(failed))
    table.caption = "times from request to pod as the callers saw them, while Waggle was down too; left: disconnected"
    table.caption_justify = "left"
    return table


def show_stay(console: Console, cast: Cast) -> None:
    """Lines that work while the demo stays up."""
    console.print(f"\nThe pools, who waits and why, as a picture: [bold]{cast.url}/ui[/bold]", soft_wrap=True)
    console.print("\nA few callers continue. Everything stays up until Ctrl-C. Try in another terminal:\n")
    for what, line in (*_waggle_lines(cast), *(_kubectl_lines(cast) if cast.kubectl else _curl_lines(cast))):
        if what:
            console.print(f"  [dim]# {what}[/dim]")
        console.print(f"  {as_markup(line)}", soft_wrap=True)


def _waggle_lines(cast: Cast) -> tuple[tuple[str, str], ...]:
    name, waggle = f"{NAMESPACE}/{POOLS[0].name}", own_command()
    pool = f"{cast.url}/v1/pools/{name}"
    return (
        ("the pools, with their queues", f"{waggle} pools --server {cast.url}"),
        (
            "a warm pod while a command runs",
            f"{waggle} claim {name} --server {cast.url} -- sh -c 'echo $WAGGLE_POD_NAME $WAGGLE_POD_IP'",
        ),
        ("one pool, as JSON", f"curl {pool}"),
        ("claim a pod, for a minute", f"""curl {pool}/claims -d '{{"lease_seconds": 60}}'"""),
        ("three at once, or none", f"""curl {pool}/claims -d '{{"count": 3, "lease_seconds": 60}}'"""),
        ("give it back (with the id that the claim has)", f"curl -X DELETE {cast.url}/v1/claims/ID"),
        ("the claims that there are", f"curl {pool}/claims"),
        ("metrics", f"curl -s {cast.url}/metrics | grep -E 'waggle_(claims|pool)'"),
    )


def _kubectl_lines(cast: Cast) -> tuple[tuple[str, str], ...]:
    kubectl = f"{cast.kubectl} --kubeconfig {cast.kubeconfig} -n {NAMESPACE}"
    return (
        ("the claimed pods, at the API server", f"{kubectl} get pods -l waggle.dev/claim"),
        ("a claim as an object: create it, wait for its pod, release it", f"echo '{_CLAIM}' | {kubectl} create -f -"),
        ("", f"{kubectl} wait --for=condition=Ready claim/mine"),
        ("", f"{kubectl} get claims"),
        ("", f"{kubectl} delete claim mine"),
    )


def _curl_lines(cast: Cast) -> tuple[tuple[str, str], ...]:
    pods = f"{cast.cluster_url}/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=waggle.dev/claim"
    return (("the claimed pods, at the API server", f"curl '{pods}'"),)
