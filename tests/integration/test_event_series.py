"""What happens again and again to a pod, as people read it: from the committer to kubectl describe."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from algorithm.reasons import Code, reason
from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from extender.kube.client.kubeconfig import connect
from extender.kube.writes.committer import Committer
from extender.scheduling.commands import RecordEvent
from extender.settings import ClusterSettings
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import pod
from tests.support.engine.commands import commands

KUBECTL = os.environ.get("WAGGLE_KUBECTL") or which("kubectl")


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(kubelet=False) as cluster:
        yield cluster


@pytest.fixture
def committer(cluster: EmbeddedCluster) -> Iterator[Committer]:
    api = connect(ClusterSettings(server=cluster.url))
    committer = Committer(api, commands(), report=lambda _: None)
    yield committer
    committer.stop()
    api.close()


def happens(cluster: EmbeddedCluster, committer: Committer, times: int) -> list[dict[str, Any]]:
    """The pod cannot be bound, so many times. The Events that there are then."""
    uid = cluster.get("pods", "p")["metadata"]["uid"]
    before = committer.stats.hints.done + committer.stats.hints.merged
    for _ in range(times):
        committer.submit(RecordEvent("default", "p", uid, reason(Code.BIND_REJECTED, detail="no binding for you")))
    eventually(lambda: committer.stats.hints.done + committer.stats.hints.merged == before + times)
    return cluster.objects("events")


def test_one_event_counts(cluster: EmbeddedCluster, committer: Committer) -> None:
    cluster.apply(pod("p"))
    for _ in range(3):
        happens(cluster, committer, 1)
    (event,) = happens(cluster, committer, 2)
    assert (event["count"], event["reason"], event["type"]) == (5, "BindRejected", "Warning")
    assert event["lastTimestamp"] >= event["firstTimestamp"]


def test_one_that_was_deleted_is_made_again_with_its_count(cluster: EmbeddedCluster, committer: Committer) -> None:
    cluster.apply(pod("p"))
    (first,) = happens(cluster, committer, 4)
    cluster.delete("events", first["metadata"]["name"])
    (event,) = happens(cluster, committer, 1)
    assert (event["count"], event["firstTimestamp"]) == (5, first["firstTimestamp"])


def test_a_lost_answer_makes_no_second_event(cluster: EmbeddedCluster, committer: Committer) -> None:
    cluster.apply(pod("p"))
    cluster.faults.inject("drop-after", method="POST", path="/events")
    uid = cluster.get("pods", "p")["metadata"]["uid"]
    committer.submit(RecordEvent("default", "p", uid, reason(Code.BIND_REJECTED, detail="no binding for you")))
    eventually(lambda: committer.stats.hints.failed)
    (event,) = happens(cluster, committer, 1)
    assert event["count"] == 2


@pytest.mark.skipif(not KUBECTL and os.environ.get("CI") != "true", reason="kubectl is not installed")
def test_kubectl_describe_says_how_often_and_for_how_long(
    cluster: EmbeddedCluster, committer: Committer, tmp_path: Path
) -> None:
    cluster.apply(pod("p"))
    happens(cluster, committer, 1)
    happens(cluster, committer, 4)
    config = write_kubeconfig(tmp_path / "kubeconfig", cluster.url)
    environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(config)}
    described = subprocess.run(
        [str(KUBECTL), "describe", "pod", "p"], env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert re.search(r"Warning +BindRejected +\d+s \(x5 over \d+s\) +waggle .*no binding for you", described), described
