"""Certificate files for tests: good ones, those of another authority, and some whose time is over."""

from __future__ import annotations

import http.client
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from extender.operate.certs import Authority, Pair
from extender.settings import TlsSettings
from tests.support.http.fixed_runtime import Client


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


class Files:
    """tls.crt, tls.key and ca.crt of one side, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self.key, self.ca = folder / "tls.crt", folder / "tls.key", folder / "ca.crt"

    def write(self, pair: Pair, authority: Authority) -> Files:
        """Each file is replaced in one step, but one after the other."""
        for path, content in ((self.certificate, pair.certificate), (self.key, pair.key)):
            replace(path, content)
        replace(self.ca, authority.pair.certificate)
        return self

    def tls(self, *, reload_seconds: float = 0.02) -> TlsSettings:
        """Mutual TLS with these."""
        return TlsSettings(
            cert_file=self.certificate, key_file=self.key, client_ca_file=self.ca, reload_seconds=reload_seconds
        )


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def https(url: str, ca: Path, client: Files | None) -> http.client.HTTPSConnection:
    """A connection that trusts `ca` and shows the certificate of `client`, if any."""
    context = ssl.create_default_context(cafile=ca)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    server = Client(url)
    return http.client.HTTPSConnection(server.host, server.port, context=context, timeout=60)
