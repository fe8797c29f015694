"""The server that is measured: `waggle serve` with its plans.

python -m tests.bench.plan.server API_SERVER_URL     (prints "ready URL"; ends when its standard input does)
"""

from __future__ import annotations

import os
import signal
import sys
import time

from extender.kube.client.access_review import Reviewer
from extender.logs.setup import configure
from extender.server.process import ServerProcess
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve
from tests.bench.cluster import end_with_input
from tests.bench.server import add_usage


def main(api_server: str) -> None:
    settings = Settings.model_validate({"server": {"port": 0}, "cluster": {"server": api_server}})
    configure(settings.log.model_copy(update={"level": "warning"}))
    end_with_input(lambda: os.kill(os.getpid(), signal.SIGTERM))
    process = ServerProcess(settings)
    process.start()
    service = process.service
    assert service is not None
    while not service.runtime.readiness().ready:
        time.sleep(0.05)
    app = create_app(service.runtime, settings, plans=process.plans, reviewer=Reviewer(process.api))
    add_usage(app, service)
    serve(app, settings, on_started=lambda url: print(f"ready {url}", flush=True), hosted=process)
    process.stop()


if __name__ == "__main__":
    main(sys.argv[1])
