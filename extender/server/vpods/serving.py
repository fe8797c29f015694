"""Decides which sets the engine serves, and when it may begin; keeps the status of VPodSet objects.

    VPodSet objects, configuration --> sets --> namespaces to watch --> known --> SetsConfigured
    nodes, vpods and namespaces are known --> Synced, once
    leader, once a second --> the statuses that have changed enough

One thread does all of this, so that nothing here needs a lock.

The sets of a namespace that Waggle may not read are not served; those of other namespaces do not wait for it. Without
the CustomResourceDefinitions there are no objects, and the sets of the configuration are served. But while the API
server refuses, or fails, to list vpods of any kind, nothing is decided: unknown vpods may already fill the pods.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from algorithm.model import Node
from extender.kube.informers.reflector import Change, ChangeKind, Reflector
from extender.server.informers import Informers, is_undefined
from extender.server.vpods.hosts import HostInformers
from extender.server.vpods.runtime import VPodRuntime
from extender.server.vpods.set_objects import SETS, SetObject, SetStatusWritten, WriteSetStatus
from extender.server.vpods.set_status import SetNumbers, numbers
from extender.server.vpods.sources import SourceInformers
from extender.server.vpods.tracked_sets import SetObjects
from extender.vpods.engine import VPodEngine
from extender.vpods.events import SetsConfigured, Synced
from extender.vpods.records import ObjectKey, SetSettings

log = structlog.get_logger(__name__)

#: Seconds between two looks: while all is not known, and afterwards.
_POLL: Final = 0.02
_LOOK: Final = 1.0
#: After changed VPodSets were handled, the next change waits nine times as long as that took, for 10 s at most. So a
#: user who changes VPodSets all the time gets a tenth of a core.
_REST, _LONGEST_REST = 9.0, 10.0
_MISSING: Final = "are the CustomResourceDefinitions installed (kubectl apply -k manifests/crds)?"

_Task = Callable[[float], None]


class ServedSets:
    """The sets of one server, and the thread that looks after them.

    `has_objects`: whether VPodSet objects are served. `policy_fault` returns why a set's policy cannot be used, or "".
    `submit` gets the writes of statuses. `nodes` is the informer of nodes. `ready` is called once all is known.
    """

    def __init__(
        self,
        runtime: VPodRuntime,
        informers: Informers,
        sources: SourceInformers,
        nodes: Reflector[Node],
        configured: tuple[SetSettings, ...],
        *,
        has_objects: bool,
        policy_fault: Callable[[SetSettings], str],
        submit: Callable[[WriteSetStatus], None],
        ready: Callable[[], None],
        relist_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._informers = informers
        self._sources = sources
        self._nodes = nodes
        self._ready = ready
        self._clock = clock
        self.objects = SetObjects(configured, policy_fault=policy_fault, send=submit, clock=clock)
        self.hosts = HostInformers(informers, runtime.handle, self.wake)
        self.informer: Reflector[SetObject] | None = (
            informers.make(SETS, self._sets_changed, on_synced=self.wake) if has_objects else None
        )
        #: All sets, including those that are not served yet. Replaced, never changed in place.
        self.all: tuple[SetSettings, ...] = configured
        self._served: SetsConfigured | None = None
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._next_sets = self._next_status = float("-inf")
        self._relist_seconds = relist_seconds
        self._next_list = clock() + relist_seconds
        self._is_synced = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waggle-vpods", daemon=True)

    def start(self) -> None:
        """Start the informer of VPodSets, and the thread."""
        if self.informer is not None:
            self.informer.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Idempotent; works without a start. The informers are stopped by their owner."""
        self._stopped.set()
        self.wake()
        self.hosts.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def wake(self) -> None:
        """Look at once. Thread-safe."""
        self._tasks.put(None)

    def written(self, report: SetStatusWritten) -> None:
        """Handle the report of a write. Thread-safe."""
        self._tasks.put(partial(self.objects.written, report))

    # -- what is known --------------------------------------------------------------------------------------------

    def missing(self) -> str:
        """What must be known before anything is decided, and is not; "" if all is."""
        if missing := self._not_listed():
            return missing
        behind = [each for each in self.hosts.all if not (each.synced.is_set() or each.last_error)]
        return f"{behind[0].name}: being listed" if behind else ""

    def _not_listed(self) -> str:
        """The same for nodes, vpods and sets."""
        own = (self.informer,) if self.informer is not None else ()
        for informer in (self._nodes, *self._sources.all, *own):
            if not (informer.synced.is_set() or is_undefined(informer)):
                return f"{informer.name}: {informer.last_error or 'being listed'}"
        return ""

    def warning(self) -> str:
        """What is not served although the server is ready; "" if all is."""
        undefined = [each.name for each in self._informers.all if is_undefined(each)]
        if undefined:
            return f"{', '.join(undefined)}: there is no such resource; {_MISSING}"
        failed = (each for each in self.hosts.all if not each.synced.is_set() and each.last_error)
        found = next((f"{each.name}: {each.last_error}" for each in failed), "") or self._sources.warning()
        return found or (f"{refused} VPodSets are not served" if (refused := len(self.objects.refused())) else "")

    # -- the thread -----------------------------------------------------------------------------------------------

    def _sets_changed(self, changes: list[Change[SetObject]]) -> None:
        self._tasks.put(partial(self._take, changes))

    def _take(self, changes: list[Change[SetObject]], _now: float) -> None:
        for change in changes:
            if change.kind is ChangeKind.SEEN:
                self.objects.seen(change.obj)
            else:
                self.objects.gone(change.obj.uid)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._round()
            except Exception:  # a bug must not stop the other sets
                log.exception("handling sets of vpods failed")
                self._stopped.wait(1.0)

    def _round(self) -> None:
        """Handle what has come, and what is due."""
        with suppress(queue.Empty):
            task = self._tasks.get(timeout=_LOOK if self._is_synced else _POLL)
            self._do(task)
        # An informer hands its first list over before it is synced: what it has shown is handled below, and then known.
        is_listed = not self._not_listed()
        with suppress(queue.Empty):
            while True:
                self._do(self._tasks.get_nowait())
        if not self._stopped.is_set():
            self._look(self._clock(), is_listed=is_listed)

    def _do(self, task: _Task | None) -> None:
        if task is not None:
            task(self._clock())

    def _look(self, now: float, *, is_listed: bool) -> None:
        if self.objects.is_stale and now >= self._next_sets:
            self.all = self.objects.sets()
            self.hosts.watch({each.key.namespace for each in self.all})
            self._serve()  # the engine makes all sets anew, which is the most of it
            self._next_sets = self._clock() + min(_LONGEST_REST, _REST * (self._clock() - now))
        self._serve()
        if is_listed and not (self._is_synced or self.objects.is_stale or self.missing()):
            self._is_synced = True
            self._runtime.handle(Synced())
            log.info("vpods ready", sets=len(self.all), vpods=sum(len(each) for each in self._sources.all))
            self._ready()
        if now >= self._next_status:
            self._next_status = now + _LOOK
            self._write_statuses(now)
        if self._relist_seconds and now >= self._next_list:
            self._next_list = now + self._relist_seconds
            self._informers.relist()  # in case a watch has lost an event

    def _serve(self) -> None:
        """Tell the engine which sets are served, and why others are not, if that has changed."""
        known, refused = [], self.objects.refused()
        for each in self.all:
            namespace = each.key.namespace
            if self.hosts.is_known(namespace):
                known.append(each)
            else:
                refused[each.key] = f"the pods of namespace {namespace} are not known"
        served = SetsConfigured(tuple(known), tuple(sorted(refused.items())))
        if served != self._served:
            self._served = served
            self._runtime.handle(served)

    def _write_statuses(self, now: float) -> None:
        term = self._runtime.term
        if term is not None and len(self.objects):
            self.objects.write_all(term, self._runtime.look(_numbers), self.hosts.trouble, now)


def _numbers(engine: VPodEngine, _now: float) -> Mapping[ObjectKey, SetNumbers]:
    return {key: numbers(hosted) for key, hosted in engine.sets.items()}
