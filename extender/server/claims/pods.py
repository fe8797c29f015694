"""Feeds the engine of claims with the pods of the namespaces that have pools.

    pool in a new namespace --> WAITING for the first list --> SERVED: the engine gets the pool
    pool in a served namespace --------------------------------^

There is one watch per namespace, without a selector: a claim in mode `detach` removes labels of its pod, and a watch
with the pool's selector would show that as a deletion. A pool is served once the pods of its namespace are listed, so
that no request fails with NoIdlePod before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from algorithm.decoding import DecodeError
from extender.claims import podreader
from extender.claims.events import ClaimEvent, PodGone, PodSeen, PodsListed, PoolsConfigured
from extender.claims.records import Pool, WarmPod
from extender.kube.client.api import ApiServer
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Resource, Timing

_EVENT = msgspec.json.Decoder(podreader.PodEvent)
#: Bytes that a record takes in addition to its texts, estimated.
_RECORD = 900
#: Bytes of memory for each character of a mark: the text, and what is decoded of it.
_MARK = 4


def weigh(pod: WarmPod) -> int:
    """Estimate the bytes of memory that a record takes."""
    texts = sum(len(name) + len(value) + 120 for name, value in pod.labels.items())
    containers = sum(300 + len(each.name) + len(each.image) + len(each.running_image) for each in pod.containers)
    marks = 800 + _MARK * len(pod.mark_text) if pod.mark is not None or pod.leaving is not None else 0
    return _RECORD + texts + containers + marks + len(pod.sandbox)


def _decode_event(line: bytes) -> tuple[str, WarmPod]:
    try:
        event = _EVENT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error
    return event.type, podreader.from_event(event)


def pods_in(namespace: str) -> Resource[WarmPod]:
    """Return the resource for an informer of the pods of a namespace."""
    return Resource(
        "pods",
        lambda raw: podreader.decode(bytes(raw)),
        lambda pod: pod.name,
        namespace=namespace,
        decode_event=_decode_event,
        weigh=weigh,
    )


class PodInformers:
    """One informer for each namespace that has pools, started when its first pool is configured.

    `most`: the limit of memory for all records, bytes. `went_back` is called if the API server was restored from a
    backup. `observe` gets the changes after the engine. `on_synced` is called when a namespace has been listed.
    """

    def __init__(
        self,
        api: ApiServer,
        handle: Callable[..., None],
        *,
        most: int,
        went_back: Callable[[str], None],
        timing: Timing | None = None,
        in_loop: LoopReader | None = None,
        observe: Callable[[list[Change[WarmPod]]], None] = lambda _changes: None,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._handle = handle
        self._observe = observe
        self._on_synced = on_synced
        self._most = most
        self._went_back = went_back
        self._timing = timing
        self._in_loop = in_loop
        self._lock = threading.Lock()
        self._pools: tuple[Pool, ...] = ()
        self._others: frozenset[str] = frozenset()
        self._informers: dict[str, Reflector[WarmPod]] = {}
        self._synced: set[str] = set()
        self._is_started = self._is_stopped = False

    @property
    def informers(self) -> tuple[Reflector[WarmPod], ...]:
        """The running informers, sorted by namespace."""
        with self._lock:
            return tuple(self._informers[name] for name in sorted(self._informers))

    def start(self) -> None:
        """Start to watch the namespaces of the pools."""
        with self._lock:
            self._is_started = True
        self.configure(self._pools)

    def configure(self, pools: Iterable[Pool]) -> None:
        """Serve these pools and no others, each once its namespace has been listed."""
        with self._lock:
            self._pools = tuple(pools)
        self._extend()

    def watch_also(self, namespaces: Iterable[str]) -> None:
        """Also watch the pods of these namespaces, which may have claims of removed pools."""
        with self._lock:
            self._others = frozenset(namespaces)
        self._extend()

    def _extend(self) -> None:
        """Start missing informers, and tell the engine which pools are served."""
        with self._lock:
            wanted = {pool.key.namespace for pool in self._pools} | self._others
            new = wanted - set(self._informers) if self._is_started and not self._is_stopped else set()
            made = {name: self._made(name) for name in sorted(new)}
            self._informers |= made
            self._tell()
        for informer in made.values():
            informer.start()

    def is_known(self, namespace: str) -> bool:
        """Whether the pods of the namespace have been listed."""
        return namespace in self._synced

    def find(self, namespace: str) -> Reflector[WarmPod] | None:
        """Return the informer of a namespace; None if there is none."""
        return self._informers.get(namespace)

    def is_coming(self, namespace: str) -> bool:
        """Whether the namespace has pools that are not served yet, because its pods have not been listed."""
        with self._lock:
            return namespace not in self._synced and any(pool.key.namespace == namespace for pool in self._pools)

    def missing(self) -> str:
        """Return why not all pools are served: an informer that is not synced, with its last error. "" if all are."""
        behind = next((each for each in self.informers if not each.synced.is_set()), None)
        return "" if behind is None else f"{behind.name}: {behind.last_error or 'being listed'}"

    def is_tried(self) -> bool:
        """Whether the API server has answered for every namespace, even with an error."""
        return all(each.synced.is_set() or each.last_error for each in self.informers)

    def relist(self) -> None:
        """List the pods again, in case a watch has lost an event."""
        for informer in self.informers:
            if informer.synced.is_set():  # any other one lists anyway
                informer.relist()

    def stop(self) -> None:
        """Stop all informers. Idempotent."""
        with self._lock:
            self._is_stopped = True
        for informer in self.informers:
            informer.stop()

    def _made(self, namespace: str) -> Reflector[WarmPod]:
        """Create the informer of a namespace. The engine gets the namespace's pools after the first list."""
        informer: Reflector[WarmPod] = Reflector(
            self._api,
            pods_in(namespace),
            self._changed,
            timing=self._timing,
            went_back=self._went_back,
            in_loop=self._in_loop,
            most=partial(self._room, namespace),
            on_synced=partial(self._namespace_synced, namespace),
            on_listed=lambda: self._handle(PodsListed(namespace)),
        )
        return informer

    def _room(self, namespace: str) -> int:
        others = sum(each.weight for name, each in self._informers.items() if name != namespace)
        return max(0, self._most - others)

    def _namespace_synced(self, namespace: str) -> None:
        with self._lock:
            self._synced.add(namespace)
            self._tell()
        self._on_synced()

    def _tell(self) -> None:
        """Tell the engine which pools are served. Called under the lock, so that the newest set comes last."""
        self._handle(PoolsConfigured(tuple(pool for pool in self._pools if pool.key.namespace in self._synced)))

    def _changed(self, changes: list[Change[WarmPod]]) -> None:
        events: list[ClaimEvent] = [
            PodSeen(each.obj, each.is_listed) if each.kind is ChangeKind.SEEN else PodGone(each.obj.uid)
            for each in changes
        ]
        self._handle(*events)
        self._observe(changes)
