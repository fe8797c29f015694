"""The cluster that is attacked, and valid requests to its server, as bytes."""

from __future__ import annotations

import json
from typing import Any

from extender.demo.workloads import GPU

NODES = 50
NODE_NAMES = tuple(f"gpu-{number:02}" for number in range(NODES))
#: Pods that wait, for which the innocent caller asks again and again.
PROBES = 20


#: The annotation in which a pod says what it wants of HiveD.
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"


def probe_name(number: int) -> str:
    return f"probe-{number}"


def probe(number: int, **metadata: Any) -> dict[str, Any]:
    """A pod of the innocent caller. `packing` does not read its annotation."""
    wish = json.dumps({"virtualCluster": "innocent", "priority": 0, "leafCellNumber": 1})
    return pod(probe_name(number), annotations={SPEC: wish}, **metadata)


def pod(name: str, *, gpus: int = 1, **metadata: Any) -> dict[str, Any]:
    """A pod that waits, as it is sent to the API server and (with a UID) to /filter."""
    amounts = {"cpu": "100m", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}],
        },
    }


def filter_body(asking: dict[str, Any], names: tuple[str, ...] = NODE_NAMES) -> bytes:
    """The body of /filter, as kube-scheduler writes it with nodeCacheCapable."""
    return json.dumps({"Pod": asking, "Nodes": None, "NodeNames": names}).encode()


def filter_request(name: str, uid: str) -> bytes:
    """A whole valid request for a pod that asks for one GPU."""
    return post("/filter", filter_body(pod(name, uid=uid)))


def probe_request(number: int, uid: str) -> bytes:
    """The request of the innocent caller for one of its pods."""
    return post("/filter", filter_body(probe(number, uid=uid)))


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A POST over HTTP/1.1 with further `headers`."""
    lines = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
