"""The client's certificate and its token, against a server that wants both, and the line of a full pool."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import pytest

from extender.client import DeniedError, NotFoundError, ServerUnavailableError, SyncWaggle, Tls, Waggle
from extender.kube.client.access_review import Reviewer
from extender.kube.client.kubeconfig import connect
from extender.operate.certs import create
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import Peer, Request, ScriptedServer, reply
from tests.support.cluster.claim_world import claim_world


def token_review(peer: Peer, request: Request) -> None:
    name = {"token-of-ann": "ann", "token-of-bob": "bob"}.get(request.json["spec"]["token"], "")
    reply(201, {"status": {"authenticated": bool(name), "user": {"username": name}}})(peer, request)


def access_review(peer: Peer, request: Request) -> None:
    asked = request.json["spec"]["resourceAttributes"]
    reply(201, {"status": {"allowed": asked["verb"] != "impersonate"}})(peer, request)


def test_certificates_and_tokens(tmp_path: Path) -> None:
    create(tmp_path, ["localhost"], ["program"], days=1, ca_days=1, force=False)
    own, program = tmp_path / "server", tmp_path / "program"
    tls = {"cert_file": str(own / "tls.crt"), "key_file": str(own / "tls.key"), "client_ca_file": str(own / "ca.crt")}
    mine = Tls(own / "ca.crt", program / "tls.crt", program / "tls.key")
    with ScriptedServer() as scripted:
        scripted.on("POST", "/apis/authentication.k8s.io/v1/tokenreviews", token_review)
        scripted.on("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", access_review)
        with (
            closing(connect(ClusterSettings(server=scripted.url))) as api,
            claim_world(pods=2, mode="recycle", serve=False, sections={"server": {"port": 0, "tls": tls}}) as world,
        ):
            server = world.serve(reviewer=Reviewer(api), authorization="kubernetes")
            url = f"https://localhost:{server.handle.url.rpartition(':')[2]}"
            tokens = iter(["token-of-ann", "token-of-ann"])
            with SyncWaggle(url, tls=mine, token=lambda: next(tokens)).pool("default", "warm").claim() as pod:
                assert pod.record.tenant == "ann"
                others = SyncWaggle(url, tls=mine, token="token-of-bob")
                with pytest.raises(NotFoundError):
                    others.get(pod.id)
                with pytest.raises(DeniedError) as caught:
                    others.release(pod.id)
                assert (caught.value.status, caught.value.code) == (403, "NotYours")
                with pytest.raises(DeniedError) as caught:
                    SyncWaggle(url, tls=mine, token="invented").pools()
                assert (caught.value.status, caught.value.code) == (401, "Unauthorized")
                with pytest.raises(ServerUnavailableError):
                    SyncWaggle(url, tls=Tls(own / "ca.crt"), token="token-of-ann").pools()
            assert world.claimed() == {}
    with pytest.raises(OSError):
        Waggle(url, tls=Tls(tmp_path / "no-such-file"))


def test_a_full_line_is_tried_again_when_the_server_says() -> None:
    pool = {"name": "warm", "selector": {"pool": "warm"}, "mode": "recycle", "max_pending": 1}
    with claim_world(pods=1, mode="recycle", pools=[pool]) as world:

        async def hold(seconds: float) -> float:
            began = time.monotonic()
            async with waggle.pool("default", "warm").claim(timeout=20):
                got = time.monotonic() - began
                await asyncio.sleep(seconds)
            return got

        async def use() -> None:
            async with waggle:
                await asyncio.gather(*(hold(0.2) for _ in range(4)))

        waggle = Waggle(world.server.handle.url)
        asyncio.run(use())
        found = world.pool()
        assert found["refused"]["QueueFull"] >= 1
        assert found["succeeded"] == 4
