"""The way to a Waggle that runs in a cluster, for commands of people: through kubectl, with kubectl's own context.

    kubectl get secret SERVICE-viewer-tls          a certificate that may look, and bind nothing
    kubectl port-forward service/SERVICE           to the replica that leads, whose pod the Service selects
    HTTPS over that, both sides with certificates  read-only

So RBAC decides who may look: by the right to read that Secret and to forward ports (Role `waggle-viewer`). No port of
the server is opened for it, and every way of logging in that kubectl knows is known here.

Promises: Waggle gets only GET requests from here, and others only from `waggle claim` and `waggle vpods`, over the same
forwarding (claim_reach.py, vpod_reach.py); private keys are in a folder that only this user can read, and only while
the connection is open; the forwarding ends with this process, however it ends.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import selectors
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Self

import urllib3

from algorithm.parent_process import end_with_parent
from extender.operate.topology import NAMESPACE

#: Waggle's port in the Service.
PORT = 9096
_KUBECTL_SECONDS = 30.0
_ANSWER_SECONDS = 30.0
#: The same for the answer to a plan, which may take a minute.
_PLAN_SECONDS = 90.0
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
_FILES = ("tls.crt", "tls.key", "ca.crt")


class ReachError(RuntimeError):
    """Waggle cannot be reached; the message says why and what would help."""


@dataclass(frozen=True)
class Target:
    """Which Waggle. `secret` "" is SERVICE-viewer-tls; `kubeconfig` and `context` "" are kubectl's own.

    `service_account` is needed where Waggle asks for a token as well (`server.inspect_authorization: kubernetes`): one
    of the same namespace, for which kubectl requests tokens.
    """

    namespace: str = NAMESPACE
    service: str = "waggle"
    secret: str = ""
    kubeconfig: str = ""
    context: str = ""
    service_account: str = ""

    @property
    def certificate(self) -> str:
        """The Secret with the certificate of people who look."""
        return self.secret or f"{self.service}-viewer-tls"

    @property
    def host(self) -> str:
        """The name in Waggle's certificate."""
        return f"{self.service}.{self.namespace}.svc"


class Kubectl:
    """kubectl with the target's context and namespace."""

    def __init__(self, target: Target) -> None:
        found = shutil.which("kubectl")
        if found is None:
            raise ReachError("kubectl is not installed: it is the way to a Waggle in a cluster")
        options = {"--kubeconfig": target.kubeconfig, "--context": target.context, "--namespace": target.namespace}
        self._command = [found, *(f"{name}={value}" for name, value in options.items() if value)]

    def ask(self, *arguments: str) -> str:
        """What it prints. Raises ReachError with what it complains about."""
        try:
            done = subprocess.run(  # noqa: S603 - kubectl, with arguments of our own
                [*self._command, *arguments], capture_output=True, text=True, check=False, timeout=_KUBECTL_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise ReachError(f"kubectl {arguments[0]} did not answer within {_KUBECTL_SECONDS:g} s") from error
        if done.returncode:
            raise ReachError(f"kubectl {' '.join(arguments[:3])}: {_last_line(done.stderr)}")
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 - as above
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for us alone; we end it
            # No other thread of ours is in a lock that it would take.
            preexec_fn=partial(end_with_parent, os.getpid(), signal.SIGTERM),  # noqa: PLW1509
        )


def context_namespace(target: Target) -> str:
    """Return the namespace that kubectl's context is set to, as `kubectl get pods` would use it.

    Raises ReachError if kubectl is not installed, or has no such context.
    """
    kubectl = Kubectl(replace(target, namespace=""))
    found = kubectl.ask("config", "view", "--minify", "--output=jsonpath={.contexts[0].context.namespace}")
    return found.strip() or "default"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:500] if lines else "it failed without a word"


class Forwarding:
    """`kubectl port-forward` to the replica that leads. `port` is where it listens on 127.0.0.1."""

    def __init__(self, kubectl: Kubectl, target: Target) -> None:
        arguments = ("port-forward", "--address=127.0.0.1", f"service/{target.service}", f":{PORT}")
        self._child = kubectl.start(*arguments)
        assert self._child.stdout is not None
        self._output: IO[str] = self._child.stdout
        try:
            self.port = self._first_words()
        except ReachError:
            self.close()
            raise
        # It says something of every connection, and would stop when nobody hears it.
        Thread(target=self._drain, name="waggle-forwarding", daemon=True).start()

    def _first_words(self) -> int:
        deadline, said = time.monotonic() + _KUBECTL_SECONDS, ""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                text = os.read(self._output.fileno(), 4096).decode(errors="replace")
                said += text
                if found := _FORWARDING.search(said):
                    return int(found[1])
                if not text:
                    raise ReachError(f"kubectl port-forward: {_last_line(said)}")
        raise ReachError(f"kubectl port-forward did not begin within {_KUBECTL_SECONDS:g} s: {_last_line(said)}")

    def _drain(self) -> None:
        with suppress(OSError, ValueError):  # it is closed
            while os.read(self._output.fileno(), 4096):
                pass

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def close(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._output.close()


class Connection:
    """HTTPS to the leading replica. A context manager; any thread may `get` and `post`.

    If the forwarding has ended (the pod is gone, another replica leads), the next `get` begins a new one.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._opened = ExitStack()
        self._kubectl = Kubectl(target)
        self._context: ssl.SSLContext | None = None
        self._token = ""
        self._lock = Lock()
        self._way: tuple[Forwarding, urllib3.HTTPSConnectionPool] | None = None

    def __enter__(self) -> Self:
        """Raises ReachError."""
        try:
            self._context = self._certificates()
            self._renew_token()
            self._pool()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._drop()
        self._opened.close()

    def get(self, path: str, headers: Mapping[str, str] = {}) -> urllib3.BaseHTTPResponse:
        """The answer, whatever its status; its body is read from it, and `release_conn` gives the connection back.

        Raises ReachError if there is none, after one attempt on a new forwarding.
        """
        return self._answer("GET", path, headers, None)

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = {}) -> urllib3.BaseHTTPResponse:
        """The same of a POST that changes nothing, such as a plan: it may be sent twice."""
        return self._answer("POST", path, headers, body)

    def _answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> urllib3.BaseHTTPResponse:
        answer = self._authorized(method, path, headers, body)
        if answer.status == 401 and self._target.service_account:
            answer.drain_conn()
            self._renew_token()
            answer = self._authorized(method, path, headers, body)
        return answer

    def way(self) -> tuple[int, ssl.SSLContext]:
        """The port on 127.0.0.1 that leads to the replica, and what to speak TLS with, for other requests than GET.

        Raises ReachError. The port is another one after the replica was replaced.
        """
        assert self._context is not None
        return self._pool().port or 0, self._context

    def lose_way(self) -> None:
        """The way leads nowhere: the next request begins a new forwarding."""
        with self._lock:
            self._drop()

    @property
    def host(self) -> str:
        """The name in Waggle's certificate."""
        return self._target.host

    @property
    def token(self) -> str:
        """The token that Waggle wants beside the certificate; "" for none."""
        return self._token

    def _authorized(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> urllib3.BaseHTTPResponse:
        sent = {**headers, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}
        try:
            return self._ask(method, path, sent, body)
        except urllib3.exceptions.HTTPError:
            with self._lock:
                self._drop()
        try:
            return self._ask(method, path, sent, body)
        except urllib3.exceptions.HTTPError as error:
            raise ReachError(f"{self._target.host} does not answer: {_reason(error)}") from error

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> urllib3.BaseHTTPResponse:
        return self._pool().urlopen(
            method,
            path,
            body=body,
            headers=dict(headers),
            redirect=False,
            retries=False,
            preload_content=False,
            decode_content=False,
            timeout=_ANSWER_SECONDS if body is None else _PLAN_SECONDS,
        )

    def _pool(self) -> urllib3.HTTPSConnectionPool:
        with self._lock:
            if self._way is not None and not self._way[0].alive:
                self._drop()
            if self._way is None:
                forwarding = Forwarding(self._kubectl, self._target)
                pool = urllib3.HTTPSConnectionPool(
                    "127.0.0.1",
                    forwarding.port,
                    ssl_context=self._context,
                    server_hostname=self._target.host,
                    assert_hostname=self._target.host,
                    maxsize=8,
                )
                self._way = forwarding, pool
            return self._way[1]

    def _drop(self) -> None:
        if self._way is not None:
            forwarding, pool = self._way
            self._way = None
            pool.close()
            forwarding.close()

    def _renew_token(self) -> None:
        if self._target.service_account:
            self._token = self._kubectl.ask("create", "token", self._target.service_account).strip()

    def _certificates(self) -> ssl.SSLContext:
        name = self._target.certificate
        try:
            secret = self._kubectl.ask("get", "secret", name, "--output=json")
        except ReachError as error:
            end = "" if str(error).endswith((".", "?", "!")) else "."
            raise ReachError(f"{error}{end} {self._hint(str(error))}") from error
        folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="waggle-viewer-")))
        try:
            data = json.loads(secret)["data"]
            for file in _FILES:
                (folder / file).write_bytes(base64.b64decode(data[file], validate=True))
            context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        except (KeyError, TypeError, ValueError, binascii.Error, ssl.SSLError) as error:
            raise ReachError(f"the Secret {name} has no usable {', '.join(_FILES)}: {error}") from error
        return context

    def _hint(self, refusal: str) -> str:
        rights = "docs/web-page.md says what it takes to look"
        if "not found" not in refusal.lower():
            return rights
        namespace = self._target.namespace
        return f"Is there a Waggle in namespace {namespace} of this cluster (docs/install.md)? If there is, {rights}"


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    return str(error.args[-1] if error.args else error)[:300]


__all__: Sequence[str] = ("PORT", "Connection", "ReachError", "Target")
