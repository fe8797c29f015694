from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import httpx
import pytest

from extender.embedded.apiserver import ApiError, serve_in_thread, spawn_sidecar
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.cluster_objects import node, pod


def test_the_handle_applies_reads_patches_and_deletes() -> None:
    with serve_in_thread(kubelet=False) as cluster:
        assert cluster.apply({**pod("a"), "status": {"phase": "Unknown"}})["status"]["phase"] == "Unknown"
        changed = cluster.apply({**pod("a", labels={"x": "1"}), "status": {"phase": "Running"}})
        assert (changed["metadata"]["labels"], changed["status"]["phase"]) == ({"x": "1"}, "Running")
        assert cluster.revision == int(changed["metadata"]["resourceVersion"])
        cluster.patch("po", "a", {"status": {"phase": "Failed"}}, subresource="status")
        assert [each["status"]["phase"] for each in cluster.objects("pods")] == ["Failed"]
        with pytest.raises(ApiError, match="already exists"):
            cluster.create(pod("a"))
        cluster.delete("pods", "a")
        assert cluster.get("pods", "a") is None


def test_resources_are_named_as_for_kubectl() -> None:
    with serve_in_thread(kubelet=False) as cluster:
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
        cluster.apply(lease)
        assert cluster.get("leases.coordination.k8s.io", "l") == cluster.get("leases", "l")
        with pytest.raises(KeyError, match="no resource is called 'sheep'"):
            cluster.objects("sheep")
        with pytest.raises(ApiError, match="no resource is 'v1', kind 'Sheep'"):
            cluster.apply({"apiVersion": "v1", "kind": "Sheep", "metadata": {"name": "s"}})


def test_stopping_ends_open_watches_and_delays_and_frees_the_port() -> None:
    cluster = serve_in_thread(kubelet=False)
    cluster.faults.inject("delay", method="POST", seconds=600)
    api = Api(cluster.url)
    with api.watch("pods") as events:
        delayed = threading.Thread(target=lambda: api.post("pods", pod("a")))
        delayed.start()
        eventually(cluster.faults.fired)
        cluster.stop()
        assert list(events) == []
    delayed.join(30)
    assert not delayed.is_alive()
    api.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(cluster.url + "/livez")
    with pytest.raises(RuntimeError, match="is stopped"):
        cluster.objects("pods")


def test_equal_seeds_give_equal_identities() -> None:
    def uids() -> list[str]:
        with serve_in_thread(kubelet=False, seed=7) as cluster:
            return [cluster.apply(node(name))["metadata"]["uid"] for name in ("a", "b")]

    assert uids() == uids()


def test_the_server_listens_on_the_loopback_interface_only() -> None:
    with serve_in_thread(kubelet=False) as cluster:
        assert cluster.url.startswith("http://127.0.0.1:")


def test_a_sidecar_serves_and_ends_on_request() -> None:
    with spawn_sidecar() as sidecar:
        assert httpx.get(sidecar.url + "/version").json()["gitVersion"] == "v1.36.0+embedded"
    assert sidecar.process.returncode in (0, -signal.SIGTERM)
    with pytest.raises(httpx.ConnectError):
        httpx.get(sidecar.url + "/livez")


def test_a_sidecar_that_cannot_listen_is_an_error() -> None:
    with serve_in_thread(kubelet=False) as cluster, pytest.raises(RuntimeError, match="did not start"):
        spawn_sidecar(port=int(cluster.url.rpartition(":")[2]))


@pytest.mark.slow
def test_a_sidecar_ends_with_its_parent() -> None:
    script = (
        "import os, signal; from extender.embedded.apiserver import spawn_sidecar; s = spawn_sidecar();"
        "print(s.url, s.process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": "."},
    )
    url, _ = parent.stdout.split()

    def is_gone() -> bool:
        try:
            httpx.get(url + "/livez")
        except httpx.TransportError:
            return True
        return False

    eventually(is_gone)
