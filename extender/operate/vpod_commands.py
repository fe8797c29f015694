"""`waggle vpods show`, `plan` and `explain`: virtual replicas from a terminal and from scripts. They change nothing.

Exit status: 0 shown; 1 there is no such set or vpod; 2 Waggle cannot be reached, or refuses the call; 3 (`plan` only)
some vreplicas would have no pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.operate.help import App
from extender.operate.output import remark, say
from extender.operate.refusal import refuse
from extender.operate.waggle_options import Format, OutputOption, WaggleOptions, calls_waggle

if TYPE_CHECKING:
    from extender.operate.vpod_reach import VPodPages

#: The exit status of a plan after which vreplicas would have no pod.
_WAITS = 3

SetArgument = Annotated[str, typer.Argument(metavar="NAMESPACE/SET", help="The set.")]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --output json.")]


def add_vpod_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    vpods = App(help="Virtual replicas on the pods of StatefulSets (docs/vpods.md).")
    vpods.command("show")(show)
    vpods.command("plan")(plan)
    vpods.command("explain")(explain)
    app.add_typer(vpods, name="vpods")


@calls_waggle
def show(
    set_name: Annotated[str, typer.Argument(metavar="[NAMESPACE/SET]", help="Show this set, with its pods.")] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Show only sets in this namespace.")
    ] = "",
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Of a set: only vpods that lack room, or have a problem.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, max=500, help="Of a set: how many vpods.")] = 20,
    after: Annotated[str, typer.Option(metavar="NAME", help="Of a set: vpods after this one.")] = "",
    as_json: JsonOption = False,
    output: OutputOption = Format.TEXT,
    *,
    waggle: WaggleOptions,
) -> None:
    """Show sets: their pods, how many vreplicas are placed and free, what moves, and which vpods wait and why.

    Exit status: 0 shown; 1 there is no such set; 2 Waggle cannot be reached, or refuses the call.
    """
    from extender.operate.vpod_text import set_text, sets_text

    is_json = as_json or output is Format.JSON
    with _pages(waggle) as pages:
        if set_name:
            query = {"limit": str(limit), "after": after, "waiting": "true" if waiting else ""}
            one = pages.one(*_split(set_name), **{field: value for field, value in query.items() if value})
            say(_json(one) if is_json else set_text(one))
        else:
            found = pages.sets(namespace)
            say(_json(found) if is_json else sets_text(found["items"]))


@calls_waggle
def plan(
    set_name: SetArgument,
    vreplicas: Annotated[
        list[str] | None,
        typer.Option(metavar="VPOD=NUMBER", help="A vpod, known or new, wants so many vreplicas; repeatable."),
    ] = None,
    delete: Annotated[list[str] | None, typer.Option(metavar="VPOD", help="A vpod is deleted; repeatable.")] = None,
    capacity: Annotated[int | None, typer.Option(metavar="NUMBER", help="Vreplicas that one pod may hold.")] = None,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="Another policy.")] = None,
    replicas: Annotated[int | None, typer.Option(metavar="NUMBER", help="Somebody sets the replicas.")] = None,
    min_replicas: Annotated[int | None, typer.Option(metavar="NUMBER", help="Of the autoscaler.")] = None,
    max_replicas: Annotated[int | None, typer.Option(metavar="NUMBER", help="Of the autoscaler.")] = None,
    autoscale: Annotated[
        bool | None, typer.Option("--autoscale/--no-autoscale", help="Switch the autoscaler on or off.")
    ] = None,
    lose_pod: Annotated[
        list[str] | None, typer.Option(metavar="POD", help="A pod fails, by name or ordinal; repeatable.")
    ] = None,
    close_pod: Annotated[list[str] | None, typer.Option(metavar="POD", help="A pod is closed; repeatable.")] = None,
    lose_node: Annotated[list[str] | None, typer.Option(metavar="NODE", help="A node fails; repeatable.")] = None,
    cordon: Annotated[list[str] | None, typer.Option(metavar="NODE", help="A node is cordoned; repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many steps are listed.")] = 50,
    as_json: JsonOption = False,
    output: OutputOption = Format.TEXT,
    *,
    waggle: WaggleOptions,
) -> None:
    """Show what would happen to a set if something changed: every move, before it is made. Nothing changes.

    Without any change: what is due as things are.

    Exit status: 0 shown; 1 there is no such set; 2 Waggle cannot be reached, or refuses the call; 3 shown, and some
    vreplicas would have no pod.
    """
    from extender.operate.vpod_text import plan_text

    namespace, name = _split(set_name)
    given = {
        "vpods": [*_wanted(vreplicas), *({"vpod": each, "deleted": True} for each in delete or ())],
        "capacity": capacity,
        "policy": policy,
        "replicas": replicas,
        "min_replicas": min_replicas,
        "max_replicas": max_replicas,
        "autoscale": autoscale,
        "lost_pods": lose_pod,
        "closed_pods": close_pod,
        "lost_nodes": lose_node,
        "cordoned_nodes": cordon,
        "limit": limit,
    }
    with _pages(waggle) as pages:
        found = pages.plan(namespace, name, {key: value for key, value in given.items() if value not in (None, [])})
        say(_json(found) if as_json or output is Format.JSON else plan_text(found))
        if found["waiting_total"]:
            raise typer.Exit(_WAITS)


@calls_waggle
def explain(
    set_name: SetArgument,
    vpod: Annotated[str, typer.Argument(metavar="VPOD", help="NAME, NAMESPACE/NAME or SOURCE:NAMESPACE/NAME.")],
    as_json: JsonOption = False,
    output: OutputOption = Format.TEXT,
    *,
    waggle: WaggleOptions,
) -> None:
    """Explain why a vpod is on the pods on which it is, why it waits, and what would help.

    Exit status: 0 shown; 1 there is no such set or vpod; 2 Waggle cannot be reached, or refuses the call.
    """
    from extender.operate.vpod_text import explanation_text

    with _pages(waggle) as pages:
        found = pages.explain(*_split(set_name), vpod)
        say(_json(found) if as_json or output is Format.JSON else explanation_text(found))


def _wanted(given: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    for each in given or ():
        vpod, equals, number = each.rpartition("=")
        if (
            not equals
            or not vpod
            or not number.isascii()
            or not number.isdecimal()
            or len(number) > 10
            or int(number) >= 2**31
        ):
            raise _bad(f"--vreplicas: expected VPOD=NUMBER with a number from 0 to {2**31 - 1}, got {each!r}")
        yield {"vpod": vpod, "vreplicas": int(number)}


def _split(name: str) -> tuple[str, str]:
    namespace, _, rest = name.partition("/")
    if not namespace or not rest or "/" in rest:
        raise _bad(f"expected NAMESPACE/SET, got {name!r}")
    return namespace, rest


def _bad(text: str) -> typer.Exit:
    return refuse(ValueError(text))


@contextmanager
def _pages(waggle: WaggleOptions) -> Iterator[VPodPages]:
    """Yield the calls. Errors end the command with their exit status."""
    from extender.client import NotFoundError, WaggleError
    from extender.operate.reach import ReachError
    from extender.operate.vpod_reach import vpods_of

    try:
        with waggle.reached(), vpods_of(waggle.direct(), waggle.target, waggle.token_file) as pages:
            yield pages
    except NotFoundError as error:
        remark(str(error), title="waggle", style="red")
        raise typer.Exit(1) from error
    except WaggleError as error:
        raise refuse(ReachError(str(error))) from error
    except (KeyError, TypeError) as error:
        raise refuse(ReachError(f"this is no answer of a Waggle of this version: {error!r}")) from error


def _json(found: object) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)
