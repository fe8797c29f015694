"""The server that is measured: `waggle serve` as it is, with two verbs more that are the floor.

    python -m tests.bench.server API_SERVER_URL [RECORD]     (prints "ready URL"; ends when its standard input does)

RECORD: the folder for a recording, as of `serve --record`.

The floor decodes a filter request and encodes an answer of the same kind with the very functions that /filter uses,
and decides nothing. What /filter takes longer is the engine and the algorithm. GET /usage tells what the process has
used so far, and how many watch events its informers have read.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

from fastapi import FastAPI

from algorithm.reasons import Code, reason
from extender.logs.setup import configure
from extender.scheduling.events import FilterAnswer
from extender.server.recording import RecordTo
from extender.server.runtime import Runtime
from extender.server.service import Service
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve
from extender.web.pages.metrics import Metrics
from extender.web.verbs.encode import encode_filter
from extender.web.verbs.extender_args import decode_filter
from extender.web.verbs.handler import Verb, VerbHandler
from tests.bench.cluster import end_with_input
from tests.bench.world import GPU


def add_floor(app: FastAPI, service: Service, max_body: int) -> None:
    """POST /floor/placed answers with the first node, /floor/refused refuses all for one reason."""
    refusal = FilterAnswer(reason=reason(Code.INSUFFICIENT, resources=[GPU]))

    def placed(_runtime: Runtime, body: bytes) -> bytes:
        offer = decode_filter(body)
        return encode_filter(FilterAnswer(node=offer.nodes[0]), offer)

    def refused(_runtime: Runtime, body: bytes) -> bytes:
        offer = decode_filter(body)
        return encode_filter(refusal, offer)

    metrics = Metrics(service.runtime)
    for verb in (Verb("placed", placed, None), Verb("refused", refused, None)):
        app.verbs[f"/floor/{verb.name}"] = VerbHandler(verb, service.runtime, metrics, max_body, app.budgets.bodies)


def add_switch(app: FastAPI, service: Service, max_body: int) -> None:
    """POST /floor/record: "on" or "off", for a server that records."""

    def switch(runtime: Runtime, body: bytes) -> bytes:
        runtime.loop._record = service.recorder if body == b"on" else None
        return b"{}"

    verb, metrics = Verb("record", switch, None), Metrics(service.runtime)
    app.verbs["/floor/record"] = VerbHandler(verb, service.runtime, metrics, max_body, app.budgets.bodies)


def add_usage(app: FastAPI, service: Service) -> None:
    """GET /usage: CPU seconds, the largest resident set so far in MiB, watch events."""
    unit = 1 if sys.platform == "darwin" else 1024

    async def usage() -> dict[str, float]:
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        events = service._nodes.stats.events + service._pods.stats.events
        return {
            "cpu_seconds": time.process_time(),
            "peak_mib": largest / (1 << 20),
            "resident_mib": _resident(),
            "events": events,
        }

    app.add_api_route("/usage", usage, methods=["GET"], include_in_schema=False)


def _resident() -> float:
    """MiB of memory that the process has now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / (1 << 20)


def start(settings: Settings, record: Path | None = None) -> tuple[Service, FastAPI]:
    """The service, ready, and its application with the floor."""
    service = Service(settings, record=RecordTo(record) if record else None)
    service.start()
    while not service.runtime.readiness().ready:
        time.sleep(0.05)
    app = create_app(service.runtime, settings)
    add_floor(app, service, settings.server.max_body_mib << 20)
    return service, app


def main(api_server: str, record: str = "") -> None:
    settings = Settings.model_validate({"server": {"port": 0}, "cluster": {"server": api_server}})
    configure(settings.log.model_copy(update={"level": "warning"}))
    end_with_input(lambda: os.kill(os.getpid(), signal.SIGTERM))
    service, app = start(settings, Path(record) if record else None)
    add_usage(app, service)
    add_switch(app, service, settings.server.max_body_mib << 20)
    serve(app, settings, on_started=lambda url: print(f"ready {url}", flush=True), hosted=service)
    service.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
