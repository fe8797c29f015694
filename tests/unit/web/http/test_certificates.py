"""Mutual TLS on real sockets: who is served, and how certificates are renewed while calls come in."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from extender.operate.certs import Authority
from extender.settings import ServerSettings, Settings, SettingsError
from extender.web.app import create_app
from extender.web.http.certificates import Certificates
from extender.web.http.server import ServerHandle, serve_in_thread
from tests.support.apiserver.api import eventually
from tests.support.http.certificates import Files, days_ago, https, replace
from tests.support.http.fixed_runtime import FixedRuntime, capture, exchange

HOSTS = ["127.0.0.1", "localhost"]


@dataclass
class Place:
    """An authority, the server's files and the client's files."""

    folder: Path
    authority: Authority = field(default_factory=Authority.new)

    def __post_init__(self) -> None:
        self.server = Files(self.folder / "server").write(self.authority.server(HOSTS), self.authority)
        self.client = Files(self.folder / "client").write(self.authority.client("kube-scheduler"), self.authority)
        self.certificates = Certificates(self.server.tls())

    def renew(self, **dates: Any) -> bytes:
        pair = self.authority.server(HOSTS, **dates)
        self.server.write(pair, self.authority)
        return pair.certificate

    def metric(self, name: str, **labels: str) -> float | None:
        found = [metric for metric in self.certificates.metrics() if metric.name == name]
        return next((value for metric in found for got, value in metric.samples if got == labels), None)

    def reloads(self, result: str) -> float:
        return self.metric("waggle_certificate_reloads_total", result=result) or 0.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@contextmanager
def serving(place: Place) -> Iterator[ServerHandle]:
    settings = Settings(server=ServerSettings(port=0, tls=place.server.tls()))
    app = create_app(FixedRuntime(), settings, certificates=place.certificates)
    with serve_in_thread(app, settings, certificates=place.certificates) as server:
        yield server


def call(url: str, ca: Path, client: Files | None) -> int:
    with closing(https(url, ca, client)) as connection:
        return exchange(connection, "POST", "/filter", capture("filter-mtls")).status


def shown_by(url: str, place: Place) -> bytes:
    """The certificate that the server shows now, in PEM."""
    with closing(https(url, place.server.ca, place.client)) as connection:
        connection.connect()
        return ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(binary_form=True)).encode()


# -- who is served ------------------------------------------------------------------------------------------------


def test_a_client_with_a_certificate_of_the_authority_is_served(place: Place):
    with serving(place) as server:
        assert call(server.url, place.server.ca, place.client) == 200


def nobody(_place: Place) -> Files | None:
    return None


def of_another_authority(place: Place) -> Files:
    other = Authority.new("waggle")
    return Files(place.folder / "other").write(other.client("kube-scheduler"), other)


def expired(place: Place) -> Files:
    pair = place.authority.client("kube-scheduler", days=1, now=days_ago(3))
    return Files(place.folder / "expired").write(pair, place.authority)


def not_yet_valid(place: Place) -> Files:
    pair = place.authority.client("kube-scheduler", days=1, now=days_ago(-3))
    return Files(place.folder / "early").write(pair, place.authority)


def meant_for_servers(place: Place) -> Files:
    return place.server


@pytest.mark.parametrize("client", [nobody, of_another_authority, expired, not_yet_valid, meant_for_servers])
def test_other_clients_are_not(place: Place, client: Callable[[Place], Files | None]):
    with serving(place) as server:
        with pytest.raises(OSError):
            call(server.url, place.server.ca, client(place))
        assert call(server.url, place.server.ca, place.client) == 200


@pytest.mark.parametrize(
    ("client", "reason", "why"),
    [
        (nobody, "peer_did_not_return_a_certificate", "peer_did_not_return_a_certificate"),
        (expired, "certificate_verify_failed", "certificate has expired"),
    ],
)
def test_who_is_refused_is_counted_and_said(
    place: Place, client: Callable[[Place], Files | None], reason: str, why: str
):
    with serving(place) as server, capture_logs() as logs:
        for _ in range(2):
            with pytest.raises(OSError):
                call(server.url, place.server.ca, client(place))
        eventually(lambda: place.metric("waggle_tls_handshakes_refused_total", reason=reason) == 2)

    assert [line["why"] for line in logs] == [why]


def test_old_versions_of_tls_are_refused(place: Place):
    with serving(place) as server, closing(https(server.url, place.server.ca, place.client)) as connection:
        context = ssl.create_default_context(cafile=place.server.ca)
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        connection._context = context
        with pytest.raises(OSError):
            connection.connect()


# -- renewal ------------------------------------------------------------------------------------------------------


def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_end_after_their_next_call(place: Place):
    with serving(place) as server, closing(https(server.url, place.server.ca, place.client)) as old:
        assert exchange(old, "GET", "/livez").status == 200
        new = place.renew()
        eventually(lambda: shown_by(server.url, place) == new)

        answers = []

        def ends() -> bool:  # open connections are told a moment after new ones are shown the new certificate
            answers.append(exchange(old, "POST", "/filter", capture("filter-mtls")))
            return answers[-1].headers.get("connection") == "close"

        eventually(ends)
        answers.append(exchange(old, "POST", "/filter", capture("filter-mtls")))
        assert {answer.status for answer in answers} == {200}
        assert answers[-1].headers.get("connection") is None
        assert place.reloads("done") >= 1


def test_no_call_fails_while_certificates_are_renewed(place: Place):
    stop, calls, failures = threading.Event(), [0, 0], []

    def work(number: int, url: str) -> None:
        try:
            while not stop.is_set():
                assert call(url, place.server.ca, place.client) == 200
                calls[number] += 1
        except Exception as error:
            failures.append(error)

    with serving(place) as server:
        callers = [threading.Thread(target=work, args=(number, server.url)) for number in range(2)]
        for caller in callers:
            caller.start()
        for _ in range(5):
            new, before = place.renew(), list(calls)
            eventually(lambda new=new: shown_by(server.url, place) == new)
            eventually(
                lambda before=before: failures or all(now > then for now, then in zip(calls, before, strict=True))
            )
        stop.set()
        for caller in callers:
            caller.join()
    assert failures == []
    assert place.reloads("done") >= 5


def test_a_new_authority_lets_its_clients_in_and_those_of_the_old_one_no_longer(place: Place):
    old, new = place.client, Authority.new()
    with serving(place) as server:
        assert call(server.url, place.server.ca, old) == 200
        trusted = place.folder / "trusted.crt"
        trusted.write_bytes(place.authority.pair.certificate)  # the server's own is still of the old one
        replace(place.server.ca, new.pair.certificate)
        eventually(lambda: place.reloads("done") == 1)

        assert call(server.url, trusted, Files(place.folder / "new").write(new.client("kube-scheduler"), new)) == 200
        with pytest.raises(OSError):
            call(server.url, trusted, old)


def test_a_bundle_lets_the_clients_of_both_authorities_in(place: Place):
    new = Authority.new()
    replace(place.server.ca, place.authority.pair.certificate + new.pair.certificate)
    with serving(place) as server:
        assert call(server.url, place.server.ca, place.client) == 200
        assert call(server.url, place.server.ca, Files(place.folder / "new").write(new.client("x"), new)) == 200


def half_written(place: Place) -> None:
    place.server.certificate.write_bytes(place.server.certificate.read_bytes()[:200])


def empty(place: Place) -> None:
    place.server.key.write_bytes(b"")


def key_of_another(place: Place) -> None:
    replace(place.server.key, place.authority.server(HOSTS).key)


def over(place: Place) -> None:
    place.renew(days=1, now=days_ago(3))


def not_begun(place: Place) -> None:
    place.renew(days=1, now=days_ago(-3))


def no_authority(place: Place) -> None:
    place.server.ca.write_bytes(b"")


def authority_over(place: Place) -> None:
    replace(place.server.ca, Authority.new(days=1, now=days_ago(3)).pair.certificate)


def missing(place: Place) -> None:
    place.server.key.unlink()


BROKEN = {
    half_written: "server.tls.cert_file: cannot be used",
    empty: "server.tls.key_file: cannot be used",
    key_of_another: "server.tls.key_file: cannot be used",
    over: "server.tls.cert_file: ended on",
    not_begun: "server.tls.cert_file: begins on",
    no_authority: "server.tls.client_ca_file: cannot be used",
    authority_over: "server.tls.client_ca_file: no authority in it holds today",
    missing: "server.tls.key_file: no such file",
}


@pytest.mark.parametrize("breaks", BROKEN)
def test_what_cannot_be_used_is_not_and_that_is_said(place: Place, breaks: Callable[[Place], None]):
    kept, ca = place.server.certificate.read_bytes(), place.folder / "trusted.crt"
    ca.write_bytes(place.server.ca.read_bytes())
    with serving(place) as server:
        with capture_logs() as logs:
            breaks(place)
            eventually(lambda: place.metric("waggle_certificate_reload_failing") == 1)

        with closing(https(server.url, ca, place.client)) as connection:
            ready = exchange(connection, "GET", "/readyz")
            assert connection.sock is not None
            shown = ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(binary_form=True))
    assert shown.encode() == kept
    assert ready.status == 200
    assert f"new certificates cannot be used, the old ones are kept: {BROKEN[breaks]}" in ready.json["detail"]
    assert any(BROKEN[breaks] in str(line.get("why")) for line in logs)


@pytest.mark.parametrize("how", ["renewed", "put back"])
def test_a_broken_renewal_heals(place: Place, how: str):
    before = place.server.key.read_bytes()
    place.certificates.context()
    key_of_another(place)
    place.certificates.look()
    place.certificates.look()
    assert place.metric("waggle_certificate_reload_failing") == 1

    if how == "renewed":
        place.renew()
    else:
        replace(place.server.key, before)
    place.certificates.look()

    assert place.metric("waggle_certificate_reload_failing") == 0
    assert place.certificates.readiness_warning() == ""
    assert place.reloads("done") == (how == "renewed")


def test_the_same_trouble_is_said_once(place: Place):
    place.certificates.context()
    key_of_another(place)
    with capture_logs() as logs:
        for _ in range(4):
            place.certificates.look()

    assert [line["event"] for line in logs if line["log_level"] == "error"] == [
        "new certificates cannot be used, the old ones are kept"
    ]
    assert place.reloads("failed") == 1


def test_files_that_do_not_fit_for_a_moment_are_no_trouble(place: Place):
    place.certificates.context()
    pair = place.authority.server(HOSTS)
    with capture_logs() as logs:
        replace(place.server.certificate, pair.certificate)
        place.certificates.look()
        replace(place.server.key, pair.key)
        place.certificates.look()

    assert [line["event"] for line in logs] == ["certificates reloaded"]
    assert (place.reloads("done"), place.reloads("failed")) == (1, 0)


def test_untouched_files_are_not_reloaded(place: Place):
    place.certificates.context()
    for _ in range(3):
        place.certificates.look()
    assert place.reloads("done") == 0


# -- ends ---------------------------------------------------------------------------------------------------------


def at(place: Place, now: datetime, api_client: Path | None = None) -> Certificates:
    certificates = Certificates(place.server.tls(), api_client=api_client, now=lambda: now)
    certificates.context()
    certificates.look()
    return certificates


def test_nothing_is_said_while_the_end_is_far(place: Place):
    assert at(place, days_ago(0)).readiness_warning() == ""


def test_a_week_before_the_end_it_is_said_in_the_log_and_in_readyz(place: Place):
    place.renew(days=100)

    with capture_logs() as logs:
        certificates = at(place, datetime.now(UTC) + timedelta(days=95))
        certificates.look()

    assert certificates.readiness_warning().startswith("the certificate server ends in 4 days, on ")
    assert [line["what"] for line in logs] == [certificates.readiness_warning()]


def test_the_last_hours_and_the_end_are_said(place: Place):
    place.renew(days=100)

    assert (
        "ends in 35 hours" in at(place, datetime.now(UTC) + timedelta(days=98, hours=12, minutes=5)).readiness_warning()
    )
    assert "the certificate server ended on " in at(place, datetime.now(UTC) + timedelta(days=101)).readiness_warning()


def test_every_end_is_a_metric(place: Place):
    api = Files(place.folder / "api").write(place.authority.client("waggle", days=20), place.authority)
    place.renew(days=100)
    place.certificates = at(place, days_ago(0), api.certificate)

    def days(name: str) -> float:
        end = place.metric("waggle_certificate_expiry_timestamp_seconds", certificate=name)
        assert end is not None
        return (end - datetime.now(UTC).timestamp()) / 86400

    assert days("server") == pytest.approx(100, abs=0.1)
    assert days("client_ca") == pytest.approx(3650, abs=0.1)
    assert days("api_client") == pytest.approx(20, abs=0.1)


def test_our_certificate_towards_the_api_server_is_watched_without_tls_of_our_own(place: Place):
    pair = place.authority.client("waggle", days=2)
    api = Files(place.folder / "api").write(pair, place.authority)
    certificates = Certificates(None, api_client=api.certificate)

    with certificates.watched():
        eventually(lambda: "the certificate api_client ends in" in certificates.readiness_warning())
    assert certificates.context() is None


# -- the start ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("breaks", [b for b in BROKEN if b not in (over, not_begun, authority_over)])
def test_what_cannot_be_used_at_the_start_is_refused_with_the_field(place: Place, breaks: Callable[[Place], None]):
    breaks(place)

    with pytest.raises(SettingsError, match=r"server\.tls"):
        place.certificates.context()


def test_what_is_over_at_the_start_is_served_until_there_is_better(place: Place):
    over(place)
    with serving(place) as server:
        eventually(lambda: "server ended on" in place.certificates.readiness_warning())
        with pytest.raises(ssl.SSLCertVerificationError):
            call(server.url, place.server.ca, place.client)

        place.renew()
        eventually(lambda: place.reloads("done") == 1)
        assert call(server.url, place.server.ca, place.client) == 200


@pytest.mark.parametrize("breaks", BROKEN)
def test_a_check_refuses_what_would_not_work(place: Place, breaks: Callable[[Place], None]):
    place.certificates.check()
    breaks(place)

    with pytest.raises(SettingsError, match=BROKEN[breaks]):
        Certificates(place.server.tls()).check()


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(place: Place):
    from cryptography.hazmat.primitives import serialization as pem

    key = pem.load_pem_private_key(place.server.key.read_bytes(), None)
    encrypted = pem.BestAvailableEncryption(b"secret")
    place.server.key.write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, encrypted))

    with pytest.raises(SettingsError, match="the key is encrypted"):
        place.certificates.context()
