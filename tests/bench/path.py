"""Which way through the code one call takes: Python calls, modules, changes of module, depth.

    python -m tests.bench.path [--trace NAME]

A whole server runs in this process (HTTP on a real socket, informers, writes), beside an API server in another one. One
thing happens at a time, and every call of a function of `extender` and `algorithm` is counted in every thread until all
is quiet again. What is counted does not depend on the machine, so there are no ratios and no medians: the shortest way
of some rounds is shown, since clocks that tick meanwhile only add to it.

Each way is shown twice: *whole*, from the first byte that is read to the last that is written, and what of it is
*decided*, from where the runtime is entered until it is left: without HTTP, decoding and encoding.

* **calls**: functions entered. A generator counts once, a comprehension not at all (newer Pythons make none of it).
  Libraries (uvicorn, msgspec, threading, ...) and what is written in C do not count.
* **modules**: how many different modules these functions are in.
* **changes**: how often the next call is in another module than the one before it.
* **depth**: how far the deepest of our frames is below the highest, libraries' frames left out.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType

import msgspec
from rich.console import Console
from rich.table import Table

from extender.logs.setup import configure
from extender.scheduling.policy import Limits
from extender.server.service import Service
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.bench import world
from tests.bench.client import Connection, Process, proposed

#: Packages whose functions count.
OURS = ("extender", "algorithm")
_NODES = 200
_ROUNDS = 5
#: Where what is decided begins and ends.
_DOORS = frozenset((*(f"Runtime.{name}" for name in ("filter", "prioritize", "preempt", "bind")), "EngineLoop.handle"))
#: Calls and modules of what is decided, at most.
_AIMS = {"/filter, placed": (180, 18), "watch event: the bind's confirmation": (70, 12)}
#: Seconds without a call of ours after which all is quiet.
_QUIET = 0.15
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass
class Walk:
    """What one thread did: module and function of each call, and how deep.

    `doors` counts what it has entered and not left of where things are decided, `decided` is its way in there.
    """

    calls: list[tuple[str, str]] = field(default_factory=list)
    deepest: int = 0
    highest: int = 0
    doors: int = 0
    decided: Walk | None = None

    def reach(self, depth: int) -> None:
        self.deepest, self.highest = max(self.deepest, depth), min(self.highest, depth)

    @property
    def modules(self) -> set[str]:
        return {module for module, _ in self.calls}

    @property
    def changes(self) -> int:
        return sum(one != other for (one, _), (other, _) in zip(self.calls, self.calls[1:], strict=False))

    @property
    def depth(self) -> int:
        return self.deepest - self.highest


class Profile:
    """Listens to every thread that is started while it is installed."""

    def __init__(self) -> None:
        self._walks: dict[str, Walk] | None = None
        self._depths: dict[int, int] = defaultdict(int)
        self._last = 0.0
        #: Generators that were entered, so that going on in one is no call.
        self._entered: set[FrameType] = set()
        #: Of each function whether it is ours, and its module.
        self._known: dict[CodeType, str] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        threading.setprofile(self._hear)
        try:
            yield
        finally:
            threading.setprofile(None)

    def _hear(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        module = self._known.get(code)
        if module is None:
            name = frame.f_globals.get("__name__", "")
            ours = name.partition(".")[0] in OURS and code.co_name not in _COMPREHENSIONS
            module = self._known[code] = name if ours else ""
        if module:
            self._count(frame, module, begins=event == "call")

    def _count(self, frame: FrameType, module: str, *, begins: bool) -> None:
        thread = threading.get_ident()
        depth = self._depths[thread] = self._depths[thread] + (1 if begins else -1)
        walks = self._walks
        if walks is None:
            return
        self._last = time.monotonic()
        name = threading.current_thread().name
        walk = walks.get(name)
        if walk is None:
            walk = walks[name] = Walk(deepest=depth - begins, highest=depth - begins)
        walk.reach(depth)
        function = frame.f_code.co_qualname
        if function in _DOORS:
            walk.doors += 1 if begins else -1
            walk.decided = walk.decided or Walk(deepest=depth, highest=depth)
        inside = walk.decided if walk.doors else None
        if inside is not None:
            inside.reach(depth)
        if not begins:
            return
        if frame.f_code.co_flags & _RESUMED:
            if frame in self._entered:
                return
            self._entered.add(frame)
        walk.calls.append((module, function))
        if inside is not None:
            inside.calls.append((module, function))

    def of(self, do: Callable[[], object]) -> dict[str, Walk]:
        """Every thread's way from `do` until all is quiet, by the thread's name."""
        self._entered.clear()
        walks: dict[str, Walk] = {}
        self._last, self._walks = time.monotonic(), walks
        do()
        while time.monotonic() < self._last + _QUIET:
            time.sleep(_QUIET / 3)
        self._walks = None
        return walks


# -- what happens -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One way: what it is of, and the walk."""

    name: str
    walk: Walk


#: The thread that answers calls, those that write, and those that hear of changes.
_WEB, _WRITES, _PODS, _NODES_HEARD = "waggle-web", "commit", "reflect-pods", "reflect-nodes"


class Scenes:
    """A server and its API server: each method lets something happen and returns who went which way for it."""

    def __init__(self, profile: Profile, extender: Connection, api_server: Connection, nodes: int) -> None:
        self._profile, self._extender, self._api_server = profile, extender, api_server
        self._names = [world.node_name(number) for number in range(nodes)]
        self._serial = 0

    def round(self) -> Iterator[Row]:
        """Everything once, with pods of its own."""
        self._serial += 1
        pod, refused, other = (f"{kind}-{self._serial}" for kind in ("placed", "refused-7", "refused-8"))
        yield Row("watch event: a new pod", self._of(_PODS, lambda: self._make(pod)))
        self._make(refused, other)
        time.sleep(_QUIET)
        answers: list[bytes] = []
        yield Row("/filter, placed", self._asked("/filter", self._offer(pod), answers))
        node = proposed(answers[-1])
        yield Row("/filter, refused", self._asked("/filter", self._offer(refused), answers))
        yield Row("/filter, refused again", self._asked("/filter", self._offer(refused), answers))
        yield Row("/prioritize", self._asked("/prioritize", self._offer(pod, [node]), answers))
        yield from self._bound(pod, node)
        yield Row("/preempt", self._asked("/preempt", self._candidates(other), answers))
        yield Row("watch event: a node's heartbeat", self._of(_NODES_HEARD, self._heartbeat))
        self._api_server.call("DELETE", "/bench/pods")
        time.sleep(Limits().settle + _QUIET)  # until then, the server looks after the pods that were refused here

    def _bound(self, pod: str, node: str) -> Iterator[Row]:
        ways = self._profile.of(lambda: self._extender.call("POST", "/bind", world.binding(pod, node)))
        yield Row("/bind, asked and answered", _of_thread(ways, _WEB))
        yield Row("/bind, its write", _of_thread(ways, _WRITES))
        yield Row("watch event: the bind's confirmation", _of_thread(ways, _PODS))

    def _of(self, thread: str, do: Callable[[], object]) -> Walk:
        return _of_thread(self._profile.of(do), thread)

    def _asked(self, path: str, body: bytes, answers: list[bytes]) -> Walk:
        return self._of(_WEB, lambda: answers.append(self._extender.call("POST", path, body)))

    def _make(self, *names: str) -> None:
        self._api_server.call("POST", "/bench/pods", msgspec.json.encode(names))

    def _heartbeat(self) -> None:
        self._api_server.call("POST", "/bench/heartbeat", b"%d" % self._serial)

    def _offer(self, pod: str, nodes: Sequence[str] = ()) -> bytes:
        shown = msgspec.Raw(self._api_server.call("GET", f"/api/v1/namespaces/default/pods/{pod}"))
        return msgspec.json.encode({"Pod": shown, "Nodes": None, "NodeNames": nodes or self._names})

    def _candidates(self, pod: str) -> bytes:
        """What kube-scheduler would evict: all that runs on each of the first nodes."""
        victims = {
            world.node_name(number): {
                "Pods": [{"UID": each["metadata"]["uid"]} for each in world.running(number, 1)],
                "NumPDBViolations": 0,
            }
            for number in range(10)
        }
        shown = world.waiting(pod)
        shown["spec"] = {**shown["spec"], "priority": 1000}
        return msgspec.json.encode({"Pod": shown, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})


def _of_thread(ways: dict[str, Walk], thread: str) -> Walk:
    """The way of the threads whose names begin so, one after the other. Raises RuntimeError if there is none."""
    found = [walk for name, walk in ways.items() if name.startswith(thread)]
    if not found:
        raise RuntimeError(f"no thread {thread} did anything, only {sorted(ways)}")
    inside = [walk.decided for walk in found if walk.decided is not None]
    return _joined(found, _joined(inside) if inside else None)


def _joined(walks: Sequence[Walk], decided: Walk | None = None) -> Walk:
    calls = [call for walk in walks for call in walk.calls]
    return Walk(calls, max(walk.depth for walk in walks), decided=decided)


def measure(nodes: int = _NODES, rounds: int = _ROUNDS) -> list[Row]:
    """The shortest of every way."""
    profile = Profile()
    with ExitStack() as stack:
        stack.enter_context(profile.installed())
        api_server = stack.enter_context(Process("tests.bench.cluster", str(nodes)))
        settings = Settings.model_validate({"server": {"port": 0}, "cluster": {"server": api_server.url}})
        service = Service(settings)
        stack.callback(service.stop)
        service.start()
        while not service.runtime.readiness().ready:
            time.sleep(0.05)
        server = stack.enter_context(serve_in_thread(create_app(service.runtime, settings), settings))
        extender = stack.enter_context(closing(Connection(server.url)))
        control = stack.enter_context(closing(Connection(api_server.url)))
        control.call("POST", "/bench/late", b"%f" % (_QUIET / 3))  # else it is chance who hears first of a bind
        scenes = Scenes(profile, extender, control, nodes)
        list(scenes.round())  # warms up
        found: dict[str, Row] = {}
        for row in (each for _ in range(rounds) for each in scenes.round()):
            if row.name not in found or len(row.walk.calls) < len(found[row.name].walk.calls):
                found[row.name] = row
    return list(found.values())


def show(rows: Sequence[Row], console: Console) -> None:
    table = Table(title="Calls of Python functions of extender and algorithm")
    table.add_column("what happens", no_wrap=True)
    for part in ("whole", "decided"):
        for figure in ("calls", "modules", "changes", "depth"):
            table.add_column(f"{part}\n{figure}", justify="right")
    table.add_column("aim\ncalls, modules")
    for row in rows:
        aim = ", ".join(map(str, _AIMS.get(row.name, ())))
        table.add_row(row.name, *_figures(row.walk), *_figures(row.walk.decided), aim)
    console.print(table)


def _figures(walk: Walk | None) -> list[str]:
    if walk is None:
        return [""] * 4
    return [str(number) for number in (len(walk.calls), len(walk.modules), walk.changes, walk.depth)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.path", description="Which way does a call take?")
    parser.add_argument("--trace", metavar="NAME", help="print every call of one way, such as '/filter, placed'")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"of each the shortest counts (default {_ROUNDS})")
    chosen = parser.parse_args(arguments)
    configure(Settings().log.model_copy(update={"level": "error"}))
    rows = measure(rounds=chosen.rounds)
    for row in rows:
        if row.name == chosen.trace:
            print(*(f"{module:32} {function}" for module, function in row.walk.calls), sep="\n")
    show(rows, Console(width=None if sys.stdout.isatty() else 130))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
