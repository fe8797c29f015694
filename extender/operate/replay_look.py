"""`waggle replay LOG --at TIME`: one moment of a recording, as a text or as the read-only pages of a server.

text    what `waggle top` says, then pods by state with their reasons, then nodes; or one pod, as `waggle explain`
json    the inspect pages
served  the very pages of a live server, on the loopback interface, until Ctrl-C
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from extender.logs.printable import printable
from extender.operate.look_text import age, explanation, number, table, top
from extender.operate.output import printed
from extender.replay.frozen import Frozen
from extender.server.runtime import Runtime
from extender.server.similar import did_you_mean
from extender.server.views import HeldBack

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: Pods of one state, and nodes, that are listed.
_PODS, _NODES = 40, 40
#: Seconds for which the algorithm is asked what it would do with the pods that wait.
_PATIENCE: Final = 5.0
_PENDING = ("Waiting", "Preempting")
_STATES = ("Waiting", "Preempting", "Binding", "Bound")


class UnknownPodError(LookupError):
    """There is no such pod at that moment; the message names those that may be meant."""


def pages(frozen: Frozen) -> dict[str, Any]:
    """Return pods and nodes as `/v1/inspect/pods` and `/v1/inspect/nodes` have them, and which moment it is.

    `heldBack` has the pods with a scheduling gate, and `heldBackUnknown` says which of those cannot be known.
    """
    from extender.web.pages.inspect import node_list, pod_list  # noqa: PLC0415 - FastAPI takes half a second

    model = frozen.runtime.model
    pods = pod_list(model.pods(patience=_PATIENCE)).model_dump(by_alias=True)["items"]
    nodes = node_list(model).model_dump(by_alias=True)["items"]
    held = frozen.gated.all(frozen.at)
    return {
        "replay": frozen.text,
        "event": frozen.number,
        "pods": pods,
        "heldBack": pod_list(held.pods).model_dump(by_alias=True)["items"],
        "heldBackUnknown": held.unknown,
        "nodes": nodes,
    }


def explained(frozen: Frozen, namespace: str, name: str) -> Any:
    """Return the page `/v1/explain` of one pod. Raises UnknownPodError."""
    held = partial(frozen.gated.all, frozen.at)
    return explained_by(frozen.runtime, namespace, name, held=held, where=f"in {frozen.text}")


def explained_by(runtime: Runtime, namespace: str, name: str, *, held: Callable[[], HeldBack], where: str) -> Any:
    """Return the page `/v1/explain` of one pod. Raises UnknownPodError, which says `where` it was looked for.

    `held` returns the pods that the engine does not keep, and is only asked about those.
    """
    from extender.web.pages.inspect import explanation_body  # noqa: PLC0415

    found = runtime.model.explain(namespace, name)
    if found is None:
        others = held()
        found = others.find(namespace, name)
        if found is None:
            near = runtime.model.similar_pods(namespace, name)
            said = (f"no pod {namespace}/{name} is known {where}.", did_you_mean(near) if near else "", others.unknown)
            raise UnknownPodError(printable(" ".join(filter(None, said))))
    return explanation_body(found).model_dump(by_alias=True)


def look_text(frozen: Frozen) -> str:
    """Return the text about the whole cluster at that moment."""
    found = pages(frozen)
    pods, nodes = found["pods"], found["nodes"]
    parts = [_head(frozen), top(pods, nodes)]
    parts += [_pods(state, [pod for pod in pods if pod["state"] == state]) for state in _STATES]
    return "\n\n".join(filter(None, (*parts, _held_back(frozen), _node_table(nodes))))


def explanation_text(frozen: Frozen, namespace: str, name: str) -> str:
    """Return the text about one pod. Raises UnknownPodError."""
    return f"{_head(frozen)}\n{explanation(printed(explained(frozen, namespace, name)))}"


def as_json(found: object) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)


def _head(frozen: Frozen) -> str:
    ready = frozen.runtime.readiness()
    serves = "" if ready.ready else f" Waggle was not ready then: {ready.detail}."
    return f"Replay of {frozen.text}; algorithm {frozen.log.header.algorithm}.{serves}"


def _pods(state: str, pods: Sequence[Any]) -> str:
    ordered = sorted(pods, key=lambda pod: (-pod["sinceSeconds"], pod["namespace"], pod["name"]))
    rows = [_pod_row(pod) for pod in ordered[:_PODS]]
    if not rows:
        return ""
    more = f"\nand {len(pods) - _PODS} more" if len(pods) > _PODS else ""
    return f"{table([(state.upper(), 'FOR', 'NODE', 'GANG', 'WHY'), *rows])}{more}"


def _held_back(frozen: Frozen) -> str:
    """The pods with a scheduling gate, which the engine does not keep."""
    found = frozen.gated.all(frozen.at)
    rows = [
        (printable(f"{pod.namespace}/{pod.name}"), age(pod.since_seconds), printable(pod.summary)) for pod in found.pods
    ]
    more = f"\nand {len(rows) - _PODS} more" if len(rows) > _PODS else ""
    shown = table([("HELD BACK", "FOR", "WHY"), *rows[:_PODS]]) + more if rows else ""
    return "\n".join(filter(None, (shown, found.unknown)))


def _pod_row(pod: Any) -> tuple[str, ...]:
    reason = pod["reason"] or {"code": "", "text": ""}
    # The sentences about pods that wait stand above, once for all that have the same.
    why = reason["code" if pod["state"] in _PENDING else "text"]
    name = f"{pod['namespace']}/{pod['name']}"
    return name, age(pod["sinceSeconds"]), pod["node"] or "-", pod["gang"] or "-", why


def _node_table(nodes: Sequence[Any]) -> str:
    rows = [(node["name"], _condition(node), str(len(node["pods"])), _room(node)) for node in nodes[:_NODES]]
    more = f"\nand {len(nodes) - _NODES} more" if len(nodes) > _NODES else ""
    return f"{table([('NODE', 'STATE', 'PODS', 'TAKEN'), *rows])}{more}" if rows else "No node is known."


def _condition(node: Any) -> str:
    if not node["known"]:
        return "unknown"
    cordoned = ", cordoned" if node["unschedulable"] else ""
    return f"{'ready' if node['ready'] else 'not ready'}{cordoned}"


def _room(node: Any) -> str:
    shown = [name for name in node["allocatable"] if "/" in name or name == "cpu"]
    shown.sort(key=lambda name: ("/" not in name, name))
    taken = node["requested"]
    counted = node["devices"] > sum(taken.get(name, 0) for name in shown if "/" in name)
    devices = [f"{node['devices']} devices"] if counted else []  # which no pod requests: the algorithm counts them
    there = node["allocatable"]
    amounts = [f"{number(name, taken.get(name, 0))}/{number(name, there[name])} {name}" for name in shown]
    return ", ".join(devices + amounts)


def serve_pages(frozen: Frozen, port: int, opened: Callable[[str], None]) -> None:
    """Serve the pages of that moment on 127.0.0.1 until SIGINT or SIGTERM; `opened` gets the URL.

    Raises SettingsError if the port cannot be used.
    """
    from extender.settings import ServerSettings, Settings, SettingsError  # noqa: PLC0415
    from extender.web.http.server import listening, serve  # noqa: PLC0415

    settings = Settings(server=ServerSettings(host="127.0.0.1", port=port))
    with ExitStack() as stack:
        try:
            listeners = stack.enter_context(listening(settings.server))
        except SettingsError as error:
            raise SettingsError(f"--port: {str(error).partition(': ')[2]}") from error
        serve(frozen_app(frozen, settings), settings, on_started=opened, listeners=listeners)


def frozen_app(frozen: Frozen, settings: Any) -> ASGIApp:
    """Return the app of that moment: the pages, and a refusal of everything else."""
    from extender.web.app import create_app  # noqa: PLC0415

    named = settings.model_copy(
        update={"algorithm": settings.algorithm.model_copy(update={"name": frozen.log.header.algorithm})}
    )
    return create_app(frozen.runtime, named, replay=frozen.text, held_back=frozen.gated.all(frozen.at))
