"""Mutual TLS between kube-scheduler and Waggle: whose certificate is not good is not served.

Its user sees a SchedulerError on the pod. Waggle ends the connection within the handshake, so the text is mostly a
bare "EOF"; kube-scheduler's own objections to Waggle's certificate are in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.certificates import Authority, Pair
from tests.e2e.cluster import ControlPlane
from tests.e2e.world import World


class Room:
    """A world whose Waggle serves only those with a certificate; `connect` starts kube-scheduler with one."""

    def __init__(self, w: World, authority: Authority, url: str) -> None:
        self.w, self.authority, self.url = w, authority, url

    @contextmanager
    def connect(self, client: Pair | None = None, *, trusted: Authority | None = None) -> Iterator[World]:
        flags = ["--ca-file", str((trusted or self.authority).certificate)]
        if client is not None:
            flags += ["--cert", str(client.certificate), "--key", str(client.key)]
        self.w.start_scheduler(url=self.url, flags=flags)
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
    w = World(plane, programs, folder="test_mtls", identity=(authority.certificate, reader))
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


def test_kube_scheduler_does_not_talk_to_an_impostor(room: Room, folder: Path) -> None:
    other = Authority(folder / "certificates", "other-ca")
    with room.connect(room.authority.client("good", "kube-scheduler"), trusted=other) as w:
        not_served(w, "certificate signed by unknown authority")


def not_served(w: World, text: str = "") -> None:
    w.nodes(1)
    w.pod("p", gpus=1)
    w.refused("p", text)
    assert w.condition("p")["reason"] == "SchedulerError"
    assert w.node_of("p") == ""
    assert w.explain("p")["reason"]["code"] == "NotAsked"
