"""What the bench sees: pods being bound, by a watch; who used the processors; and kube-scheduler's own metrics."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import msgspec

from extender.kube.client.api import ApiError, ApiServer, Exchange

#: Seconds that a measurement may take before it has failed.
PATIENCE = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    resource_version: str


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Object


_event = msgspec.json.Decoder(_Event)


class Bound:
    """A watch of the bound pods of one namespace, as a context manager: when each of them was first seen.

    The API server selects, so that a pod is one event, and the bench takes little of the machine. A busy API server
    ends watches that are not read at once; they go on where they were.
    """

    def __init__(self, api: ApiServer, pods: str) -> None:
        self._api, self._pods = api, pods
        self._version = ""
        self._stream = self._open()
        self._seen: dict[str, float] = {}
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._opened = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._opened.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._stream.interrupt()
        self._thread.join()

    def wait(self, number: int) -> float:
        """Until so many are bound; when the last of them was. Raises RuntimeError if that does not come."""
        return self.wait_for(lambda seen: sorted(seen.values())[number - 1] if len(seen) >= number else 0.0, number)

    def wait_for(self, find: Callable[[Mapping[str, float]], float], what: object) -> float:
        """Until `find` tells a moment by when each pod was bound. Raises RuntimeError if it does not come to that."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._failure or find(self._seen), PATIENCE)
            if self._failure or not done:
                raise RuntimeError(f"waited for {what}: {len(self._seen)} pods are bound") from self._failure
            return find(self._seen)

    def _open(self) -> Exchange:
        query = {"watch": "true", "fieldSelector": "spec.nodeName!=", "resourceVersion": self._version}
        return self._api.stream(self._pods, query=query, timeout_read=PATIENCE)

    def _follow(self) -> None:
        try:
            while not self._stopping:
                with self._stream as stream:
                    self._opened.set()
                    self._read(stream)
                self._stream = self._open()
        except (ApiError, msgspec.DecodeError) as error:
            self._failure = error
        finally:
            self._opened.set()
            with self._changed:
                self._changed.notify_all()

    def _read(self, stream: Exchange) -> None:
        rest = b""
        for piece in stream:
            now = time.monotonic()
            *lines, rest = (rest + piece).split(b"\n")
            with self._changed:
                for line in lines:
                    metadata = _event.decode(line).object.metadata
                    self._version = metadata.resource_version
                    self._seen.setdefault(metadata.name, now)
                self._changed.notify_all()


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """What each process has used so far, user and system."""
    return {name: _used(pid) for name, pid in pids.items()}


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def means(metrics_url: str) -> dict[str, float]:
    """The mean of each histogram in milliseconds, by name and labels as Prometheus writes them."""
    with httpx.Client(verify=False, timeout=30) as client:
        text = client.get(metrics_url).raise_for_status().text
    return {name: 1000 * total / count for name, total, count in _histograms(text) if count}


def _histograms(text: str) -> Iterator[tuple[str, float, float]]:
    """Name with labels, sum and count of each."""
    samples = dict(line.rpartition(" ")[::2] for line in text.splitlines() if not line.startswith("#"))
    for name, value in samples.items():
        metric, brace, labels = name.partition("{")
        if metric.endswith("_count"):
            base = metric.removesuffix("_count")
            yield base + brace + labels, float(samples.get(f"{base}_sum{brace}{labels}", 0)), float(value)
