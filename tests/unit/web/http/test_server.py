"""Running the app: addresses, TLS, and how it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from extender.operate.certs import Authority
from extender.settings import ServerSettings, Settings, SettingsError, TlsSettings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.http.certificates import Files, https
from tests.support.http.fixed_runtime import Client, FixedRuntime, capture, exchange


def settings(**fields: object) -> Settings:
    return Settings(server=ServerSettings(port=0, **fields))


def test_port_0_takes_any_free_port():
    app = create_app(FixedRuntime(), settings())

    with serve_in_thread(app, settings()) as one, serve_in_thread(app, settings()) as other:
        assert one.url != other.url
        assert Client(one.url).get("/livez").status == Client(other.url).get("/livez").status == 200


def test_a_stopped_server_accepts_nobody_and_may_be_stopped_again():
    handle = serve_in_thread(create_app(FixedRuntime(), settings()), settings())
    client = Client(handle.url)
    with closing(client.connect()) as idle:
        assert exchange(idle, "GET", "/livez").status == 200
        handle.stop()
    handle.stop()

    with pytest.raises(ConnectionRefusedError):
        client.get("/livez")


def test_a_port_in_use_is_named():
    app = create_app(FixedRuntime(), settings())
    with serve_in_thread(app, settings()) as server:
        taken = Settings(server=ServerSettings(port=Client(server.url).port))

        with pytest.raises(SettingsError, match=r"server\.port: cannot listen on 127\.0\.0\.1:"):
            serve_in_thread(app, taken)


def test_a_missing_certificate_is_named(tmp_path: Path):
    there = tmp_path / "there"
    there.touch()
    wanted = settings(tls=TlsSettings(cert_file=there, key_file=tmp_path / "missing"))

    with pytest.raises(SettingsError, match=r"server\.tls\.key_file: no such file: .*missing"):
        serve_in_thread(create_app(FixedRuntime(), wanted), wanted)


def test_an_unusable_certificate_is_named(tmp_path: Path):
    there = tmp_path / "there"
    there.write_text("no certificate")
    wanted = settings(tls=TlsSettings(cert_file=there, key_file=there))

    with pytest.raises(SettingsError, match=r"server\.tls\.cert_file: cannot be used: "):
        serve_in_thread(create_app(FixedRuntime(), wanted), wanted)


# -- TLS ----------------------------------------------------------------------------------------------------------


def test_https_is_served(tmp_path: Path):
    authority = Authority.new()
    files = Files(tmp_path).write(authority.server(["127.0.0.1"]), authority)
    tls = TlsSettings(cert_file=files.certificate, key_file=files.key)
    app = create_app(FixedRuntime(), settings(tls=tls))

    with serve_in_thread(app, settings(tls=tls)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        with closing(https(server.url, files.ca, None)) as connection:
            assert exchange(connection, "POST", "/filter", capture("filter-mtls")).json["NodeNames"] == ["n0"]


# -- the end ------------------------------------------------------------------------------------------------------

_PROGRAM = """
import threading
from concurrent.futures import Future
from extender.scheduling.events import BindAnswer
from extender.operate.certs import Authority
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve
from tests.support.http.certificates import Files, https
from tests.support.http.fixed_runtime import FixedRuntime

class Slow(FixedRuntime):
    def bind(self, *asked):
        print("binding", flush=True)
        future = Future()
        threading.Timer(0.5, future.set_result, [BindAnswer(1)]).start()
        return future

settings = Settings(server=ServerSettings(port=0))
serve(create_app(Slow(), settings), settings, on_started=lambda url: print(url, flush=True))
print("ended", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_requests_finish_and_returns(sign: signal.Signals):
    root = Path(__file__).parents[4]
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        client = Client(process.stdout.readline())
        with closing(client.connect()) as connection:
            connection.request("POST", "/bind", capture("bind"))
            assert process.stdout.readline() == "binding\n"

            process.send_signal(sign)

            assert connection.getresponse().read() == b'{"Error":""}'
        assert process.stdout.readline() == "ended\n"
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("beginning", [b"GET /livez HTTP/1.1\r\nX: ", b"GET /"])
def test_a_head_that_does_not_end_ends_the_connection(beginning: bytes):
    app = create_app(FixedRuntime(), settings())
    with serve_in_thread(app, settings()) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as endless:
            endless.sendall(beginning)
            with pytest.raises(OSError):  # noqa: PT012 - the server may notice at any of these
                for _ in range(2000):
                    endless.sendall(b"a" * 65536)
        assert Client(server.url).get("/livez").status == 200


def test_a_long_body_is_no_long_head():
    app = create_app(FixedRuntime(), settings())
    with serve_in_thread(app, settings()) as server:
        assert Client(server.url).post("/filter", b" " * 300_000).status == 200
