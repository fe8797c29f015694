"""Mutual TLS between kube-scheduler and Waggle: whose certificate is not good is not served.

Its user sees a SchedulerError on the pod. Waggle ends the connection within the handshake, so the text is mostly a
bare "EOF"; kube-scheduler's own objections to Waggle's certificate are in full.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from tests.e2e.certificates import Authority, Pair
from tests.e2e.cluster import ControlPlane
from tests.e2e.world import RealCluster, eventually


class Room:
    """A world whose Waggle serves only those with a certificate; `connect` starts kube-scheduler with one."""

    def __init__(self, w: RealCluster, authority: Authority, url: str) -> None:
        self.w, self.authority, self.url = w, authority, url

    def serial(self) -> int:
        """The serial number of the certificate that Waggle shows now."""
        address = urlsplit(self.url)
        shown = ssl.get_server_certificate((address.hostname or "", address.port or 0))
        return x509.load_pem_x509_certificate(shown.encode()).serial_number

    @contextmanager
    def connect(
        self, client: Pair | None = None, *, trusted: Authority | None = None, extender: Any = None
    ) -> Iterator[RealCluster]:
        flags = ["--ca-file", str((trusted or self.authority).certificate)]
        if client is not None:
            flags += ["--cert", str(client.certificate), "--key", str(client.key)]
        self.w.start_scheduler(url=self.url, flags=flags, extender=extender)
        try:
            yield self.w
        finally:
            assert self.w.scheduler is not None
            self.w.scheduler.stop()
            self.w.scheduler = None
            self.w.clear()


@pytest.fixture(scope="module")
def room(plane: ControlPlane, programs: Any, folder: Path) -> Iterator[Room]:
    authority = Authority(folder / "certificates", "waggle-ca")
    serving = authority.server("waggle-server")
    tls = {
        "cert_file": str(serving.certificate),
        "key_file": str(serving.key),
        "client_ca_file": str(authority.certificate),
    }
    reader = authority.client("reader", "a test")
    w = RealCluster(plane, programs, folder="test_mtls", identity=(authority.certificate, reader))
    try:
        w.start_waggle(server={"port": w.waggle_port, "tls": tls})
        yield Room(w, authority, w.waggle_url)
        w.check()
    finally:
        w.close()


def test_a_good_certificate_is_served(room: Room) -> None:
    with room.connect(room.authority.client("good", "kube-scheduler")) as w:
        w.nodes(1)
        w.pod("p", gpus=1)
        assert w.place("p") == "n0"


def test_without_a_certificate_nobody_is_served(room: Room) -> None:
    with room.connect() as w:
        not_served(w)


def test_a_certificate_of_another_authority_is_refused(room: Room, folder: Path) -> None:
    stranger = Authority(folder / "certificates", "stranger-ca").client("stranger", "kube-scheduler")
    with room.connect(stranger) as w:
        not_served(w)


def test_an_expired_certificate_is_refused(room: Room) -> None:
    expired = room.authority.client("expired", "kube-scheduler", valid_for=timedelta(hours=-1))
    with room.connect(expired) as w:
        not_served(w)


def test_a_certificate_without_its_key_is_not_shown(room: Room) -> None:
    """kube-scheduler accepts that configuration, and Waggle's certificate; it just has none to show."""
    good = room.authority.client("keyless", "kube-scheduler")
    tls = {"caFile": str(room.authority.certificate), "certFile": str(good.certificate)}
    with room.connect(extender={"tlsConfig": tls}) as w:
        not_served(w)


def test_a_certificate_is_exchanged_while_kube_scheduler_runs(room: Room) -> None:
    """It reads the files again for each new connection: an expired one is replaced, and nothing restarted."""
    shown = room.authority.client("exchanged", "kube-scheduler", valid_for=timedelta(hours=-1))
    with room.connect(shown) as w:
        not_served(w)
        room.authority.client("exchanged", "kube-scheduler")
        assert w.place("p") == "n0"


def test_waggles_certificate_is_renewed_while_pods_come(room: Room) -> None:
    """No call is lost: no pod has ever failed, and the new certificate is the one that is shown."""
    with room.connect(room.authority.client("good", "kube-scheduler")) as w:
        w.nodes(2, gpus=20)
        before = room.serial()
        names = [f"p{i:02}" for i in range(30)]
        for i, name in enumerate(names):
            w.pod(name, gpus=1)
            if i == 10:
                room.authority.server("waggle-server")
        w.all_placed(names)
        eventually(lambda: room.serial() != before, "the new one is shown")
        w.pod("later", gpus=1)
        w.place("later")
        assert not w.events("later", "FailedScheduling")
        assert not any(w.events(name, "FailedScheduling") for name in names)


def test_kube_scheduler_does_not_talk_to_an_impostor(room: Room, folder: Path) -> None:
    other = Authority(folder / "certificates", "other-ca")
    with room.connect(room.authority.client("good", "kube-scheduler"), trusted=other) as w:
        not_served(w, "certificate signed by unknown authority")


def not_served(w: RealCluster, text: str = "") -> None:
    w.nodes(1)
    w.pod("p", gpus=1)
    # A kube-scheduler that has just started may not have seen the node when it sees the pod.
    eventually(lambda: w.condition("p").get("reason") == "SchedulerError", lambda: f"an error: {w.condition('p')}")
    assert text in w.message("p")
    assert w.node_of("p") == ""
    assert w.explain("p")["reason"]["code"] == "RefusedByKubeScheduler"
