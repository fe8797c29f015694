"""Requests and streams: what is an answer, what was never sent, what may have happened."""

from __future__ import annotations

import socket
import threading

import pytest

from extender.kube.client.api import ApiServer, Interrupted, Unreachable
from extender.kube.client.transport import Endpoint, Proxy
from tests.support.apiserver.scripted_server import (
    WAIT,
    Feed,
    ScriptedServer,
    drop,
    hang,
    lines,
    reply,
    status,
    truncated,
)


def test_a_request_carries_method_path_query_and_body(server: ScriptedServer, api: ApiServer) -> None:
    server.on("POST", "/x", reply(201, {"made": True}, X_Kind="y"))
    response = api.request("POST", "/x", query={"a": "1", "b": "x y"}, body=b"{}", content_type="application/what")
    assert (response.status, response.body, response.headers["x-kind"]) == (201, b'{"made": true}', "y")
    request = server.requests[0]
    assert (request.query, request.body) == ({"a": "1", "b": "x y"}, b"{}")
    assert request.headers["content-type"] == "application/what"
    assert request.headers["accept"] == "application/json"
    assert request.headers["user-agent"] == "waggle"
    assert "authorization" not in request.headers


@pytest.mark.parametrize("code", [200, 204, 301, 401, 404, 409, 410, 429, 500, 503])
def test_every_status_is_an_answer(server: ScriptedServer, api: ApiServer, code: int) -> None:
    server.on("GET", "/x", status(code, "so be it") if code != 204 else reply(204))
    assert api.request("GET", "/x").status == code


def test_a_connection_is_used_again(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", reply(200, {}))
    for _ in range(5):
        api.request("GET", "/x")
    assert server.connections == 1


def test_requests_at_the_same_time_have_their_own_connections(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/slow", hang())
    server.on("GET", "/x", reply(200, {}))
    exchange = api.stream("/slow", timeout_read=WAIT)

    def wait() -> None:
        with pytest.raises(Interrupted), exchange:
            pass

    waiting = threading.Thread(target=wait)
    waiting.start()
    server.wait_for(lambda: len(server.requests) == 1)
    assert api.request("GET", "/x").status == 200
    exchange.interrupt()
    waiting.join(WAIT)
    assert not waiting.is_alive()


def test_connection_refused_was_never_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        ApiServer(Endpoint("127.0.0.1", port)).request("POST", "/x", body=b"{}")


def test_an_unknown_name_was_never_sent() -> None:
    with pytest.raises(Unreachable):
        ApiServer(Endpoint("no.such.name.invalid", 80)).request("POST", "/x", body=b"{}")


def test_credentials_that_cannot_be_got_were_never_sent() -> None:
    def broken() -> str:
        raise OSError("token file is gone")

    with pytest.raises(Unreachable, match="token file is gone"):
        ApiServer(Endpoint("127.0.0.1", 1, authorization=broken)).request("POST", "/x")


def test_the_authorization_is_asked_for_each_request(server: ScriptedServer, api: ApiServer) -> None:
    tokens = iter(["Bearer one", "Bearer two"])
    endpoint = Endpoint(api.endpoint.host, api.endpoint.port, authorization=lambda: next(tokens))
    server.on("GET", "/x", reply(200, {}))
    rotating = ApiServer(endpoint)
    rotating.request("GET", "/x")
    rotating.request("GET", "/x")
    rotating.close()
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer one", "Bearer two"]


def test_a_refused_authorization_is_told_to_its_source(server: ScriptedServer, api: ApiServer) -> None:
    refusals: list[int] = []
    server.on("GET", "/x", status(401, "who are you"))
    endpoint = Endpoint(api.endpoint.host, api.endpoint.port, refused=lambda: refusals.append(1))
    asking = ApiServer(endpoint)
    assert asking.request("GET", "/x").status == 401
    asking.close()
    assert refusals == [1]


def test_a_write_that_is_never_answered_is_interrupted(server: ScriptedServer, api: ApiServer) -> None:
    server.on("POST", "/x", hang())
    with pytest.raises(Interrupted, match=r"no answer within 0\.2 s") as caught:
        api.request("POST", "/x", body=b"{}", timeout=0.2)
    assert caught.value.timed_out


def test_a_write_applied_before_the_connection_closed_is_interrupted_and_not_repeated(
    server: ScriptedServer, api: ApiServer
) -> None:
    server.on("POST", "/x", reply(200, {}), drop())
    api.request("POST", "/x", body=b"{}")
    with pytest.raises(Interrupted):
        api.request("POST", "/x", body=b"{}")
    assert len(server.requests) == 2


def test_a_read_on_a_kept_connection_that_died_is_repeated_on_a_new_one(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", reply(200, b"1"), drop(), reply(200, b"3"))
    assert api.request("GET", "/x").body == b"1"
    assert api.request("GET", "/x").body == b"3"
    assert server.connections == 2


def test_a_read_that_dies_on_a_new_connection_is_interrupted(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", drop())
    with pytest.raises(Interrupted):
        api.request("GET", "/x")
    assert len(server.requests) == 1


def test_a_body_cut_short_is_interrupted(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", truncated(b"half"))
    with pytest.raises(Interrupted):
        api.request("GET", "/x")
    with api.stream("/x", timeout_read=WAIT) as exchange, pytest.raises(Interrupted):
        list(exchange)


def test_garbage_instead_of_http_is_interrupted(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", lambda peer, request: peer.send(b"SSH-2.0-OpenSSH\r\n\r\n"))
    with pytest.raises(Interrupted):
        api.request("GET", "/x")


def test_a_connection_that_the_server_closed_while_idle_is_not_used_for_a_write(
    server: ScriptedServer, api: ApiServer
) -> None:
    def reply_and_close(peer: object, request: object) -> None:
        reply(200, {})(peer, request)  # type: ignore[arg-type]
        drop()(peer, request)  # type: ignore[arg-type]

    server.on("POST", "/x", reply_and_close, reply(200, {}))
    api.request("POST", "/x")
    kept = api._idle[0][1]
    server.wait_for(lambda: kept.stale, "the close to arrive")
    assert api.request("POST", "/x").status == 200


def test_a_stream_gives_pieces_as_they_come(server: ScriptedServer, api: ApiServer) -> None:
    feed = Feed()
    server.on("GET", "/x", feed)
    with api.stream("/x", timeout_read=WAIT) as stream:
        assert stream.status == 200
        pieces = iter(stream)
        feed.send(b"one")
        assert next(pieces) == b"one"
        feed.send(b"two")
        assert next(pieces) == b"two"
        feed.end()
        assert list(pieces) == []


def test_a_stream_read_to_its_end_gives_its_connection_back(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", lines({"a": 1}))
    for _ in range(3):
        with api.stream("/x", timeout_read=WAIT) as stream:
            assert b"".join(stream) == b'{"a": 1}\n'
    assert server.connections == 1


def test_a_stream_left_early_takes_its_connection_along(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", lines({"a": 1}, then="hang"))
    server.on("GET", "/y", reply(200, b"y"))
    with api.stream("/x", timeout_read=WAIT):
        pass
    assert api.request("GET", "/y").body == b"y"
    assert server.connections == 2


def test_a_silent_stream_is_interrupted(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", lines({"a": 1}, then="hang"))
    with api.stream("/x", timeout_read=0.2) as stream:
        pieces = iter(stream)
        assert next(pieces)
        with pytest.raises(Interrupted) as caught:
            next(pieces)
    assert caught.value.timed_out


@pytest.mark.parametrize("entered", [True, False])
def test_an_exchange_can_be_interrupted_at_any_time(server: ScriptedServer, api: ApiServer, entered: bool) -> None:
    server.on("GET", "/x", lines({"a": 1}, then="hang"))
    stream = api.stream("/x", timeout_read=WAIT)
    if not entered:
        stream.interrupt()
        with pytest.raises(Unreachable), stream:
            pass
        assert server.requests == []
        return
    with stream:
        pieces = iter(stream)
        assert next(pieces)
        threading.Timer(0.05, stream.interrupt).start()
        with pytest.raises(Interrupted):
            next(pieces)


def test_an_interrupt_that_comes_too_late_hurts_nobody(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/x", reply(200, b"x"))
    first = api.stream("/x", timeout_read=WAIT)
    with first:
        first.read()
    with api.stream("/x", timeout_read=WAIT) as second:
        first.interrupt()
        assert second.read() == b"x"
    assert server.connections == 1


def test_nothing_can_start_after_close(api: ApiServer) -> None:
    api.close()
    with pytest.raises(Unreachable, match="closed"):
        api.request("GET", "/x")


def test_a_path_prefix_is_put_before_every_path(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", "/k8s/x", reply(200, {}))
    prefixed = ApiServer(Endpoint(api.endpoint.host, api.endpoint.port, "/k8s"))
    assert prefixed.request("GET", "/x").status == 200
    prefixed.close()


def test_a_proxy_of_plain_http_gets_the_whole_url_and_its_headers(server: ScriptedServer, api: ApiServer) -> None:
    proxy = Proxy(api.endpoint.host, api.endpoint.port, {"Proxy-Authorization": "Basic abc"})
    server.on("GET", "/x", reply(200, {}))
    proxied = ApiServer(Endpoint("cluster.invalid", 6443, proxy=proxy))
    assert proxied.request("GET", "/x").status == 200
    proxied.close()
    headers = server.requests[0].headers
    assert (headers["host"], headers["proxy-authorization"]) == ("cluster.invalid:6443", "Basic abc")
