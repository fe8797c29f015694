"""An API server stand-in: enough of the Kubernetes API for schedulers and their clients, in memory, on 127.0.0.1.

It promises the parts that a scheduler's correctness hangs on: one resourceVersion, watches without gaps or an honest
410, optimistic concurrency, bindings by the real rules, the real refusals. It is not a Kubernetes: no users, no TLS,
only the controllers that scaling and draining need. What is served is a table (`table.py`); how faithfully, and where
it deviates, is in tests/golden and docs/embedded-cluster.md.

    requests -> app / connection -> requests -> cluster, pods, scale, lists -> store -> watch -> clients
                 faults, tabular                    (the verbs)                  |
                                                                                 +----> kubelet, controllers
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extender.embedded.apiserver.errors import ApiError
    from extender.embedded.apiserver.faults import Fault, Faults
    from extender.embedded.apiserver.server import EmbeddedCluster, serve_in_thread
    from extender.embedded.apiserver.sidecar import Sidecar, spawn_sidecar

__all__ = ["ApiError", "EmbeddedCluster", "Fault", "Faults", "Sidecar", "serve_in_thread", "spawn_sidecar"]

#: Where each name is from. Plans need the rules about objects alone, and start without the HTTP server.
_MODULES = {
    "ApiError": "errors",
    "EmbeddedCluster": "server",
    "Fault": "faults",
    "Faults": "faults",
    "Sidecar": "sidecar",
    "serve_in_thread": "server",
    "spawn_sidecar": "sidecar",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
