"""The certificates of the server: which ones are presented now, whether newer ones can be used, when they expire.

                     context                 look: the files changed and are usable
    (nothing yet) ------------> serving <--------------------------------------------+
                                 |    ^                                              |
       look: the files changed,  |    |  look: they are the old ones again,          |
       and are unusable          v    |  or have become usable                       |
                              serving the old ones, and complaining      (serving the new ones)

Every new connection uses the certificates that are current at that moment. Open connections end after their calls in
flight, or after the next call (`on_renewal`), so a renewal drops no call, and no client keeps access that it has lost.
Files are unusable if they cannot be read, are only half written, do not fit their key, have expired, or are not valid
yet: then the old ones stay. This, and an expiry that is near, is reported in the log, in the metrics and in /readyz.

Files are compared by content, every `reload_seconds`: that works for every kind of volume, and for swapped links.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from extender.server.views import Metric
from extender.settings import SettingsError, TlsSettings
from extender.web.http.authorities import authorities, dns_names, not_signed_by

log = structlog.get_logger(__name__)

#: An expiry that is nearer than this is reported.
_NEAR = timedelta(days=7)
#: Seconds between two checks if nothing is to be reloaded: for the expiry of the client certificate for the API server.
_USUAL_LOOK_SECONDS = 60.0

#: Seconds between two log lines about the same refusal of the same address.
_REFUSAL_PAUSE_SECONDS = 60.0
#: Refusals that are remembered as logged; the log as a whole has limits of its own.
_MOST_REFUSALS_LOGGED = 256

_Contents = dict[str, bytes]


class Unusable(Exception):  # noqa: N818  a finding, not a fault of ours
    """Certificate files that must not be put into use; the message names the setting and says why."""


class Certificates:
    """The server's certificates. Thread-safe. Nothing is read before `context` or `look`; `api_client` is our own
    certificate for the API server."""

    def __init__(
        self,
        tls: TlsSettings | None,
        *,
        api_client: Path | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._tls = tls
        self._api_client = api_client
        self._now = now
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._served: _Contents = {}
        self._names: frozenset[str] = frozenset()
        self._authority_removed = False
        self._suspicion = self._failure = ""
        self._reloads = {"done": 0, "failed": 0}
        self._renewed: list[Callable[[], None]] = []
        self._ends: dict[str, datetime] = {}
        self._last_warning = ""
        self._refusals: Counter[str] = Counter()
        self._refusals_logged_at: dict[tuple[str, str], float] = {}
        self._stopped = threading.Event()

    # -- TLS ------------------------------------------------------------------------------------------------------

    def context(self) -> ssl.SSLContext | None:
        """The TLS context to listen with; None is plain HTTP. Raises SettingsError, naming the field at fault.

        An expired certificate is presented all the same if there is no better one: kube-scheduler will refuse it, but
        the process is there to load a new one, and reports what is wrong.
        """
        if self._tls is None:
            return None
        with self._lock:
            if self._context is None:
                contents = _read(self._tls)
                made = _make(self._tls)
                self._ends |= _ends_of(contents)
                self._context, self._served = made, contents
                self._names = dns_names(contents["cert_file"])
            return self._context

    @property
    def current(self) -> ssl.SSLContext:
        """The TLS context for the next connection, after `context`. Called in the event loop: takes no lock."""
        assert self._context is not None
        return self._context

    @property
    def settings(self) -> TlsSettings | None:
        return self._tls

    def withdrawn(self, certificates: Iterable[bytes]) -> set[bytes]:
        """The clients' certificates (DER) that the present authorities have not signed. Not for the event loop."""
        with self._lock:
            trusted, any_removed = self._served.get("client_ca_file", b""), self._authority_removed
        return not_signed_by(trusted, certificates) if any_removed else set()

    def names(self) -> frozenset[str]:
        """The DNS names in the certificate that is presented, in lower case. Called in the event loop: takes no
        lock."""
        return self._names

    def check(self) -> None:
        """Raise SettingsError if the files cannot be used now, or can no longer."""
        if self._tls is not None:
            self.context()
            try:
                _check_dates(_ends_and_beginnings(_read(self._tls)), self._now())
            except Unusable as error:
                raise SettingsError(str(error)) from error

    def on_renewal(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in the thread that looks, whenever other files are in use from then on."""
        self._renewed.append(tell)

    # -- reloading ------------------------------------------------------------------------------------------------

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Check the files again and again, in a thread of its own, until the end of the `with`."""
        if self._tls is None and self._api_client is None:
            yield
            return
        self._stopped.clear()
        thread = threading.Thread(target=self._run, name="waggle-certificates", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _run(self) -> None:
        pause = self._tls.reload_seconds if self._tls else _USUAL_LOOK_SECONDS
        while True:
            try:
                self.look()
            except Exception:
                log.exception("looking at the certificates failed")
            if self._stopped.wait(pause):
                return

    def look(self) -> None:
        """Load changed files if they are usable; report errors, and what expires soon."""
        with self._lock:
            renewed = False
            if self._tls is not None and self._context is not None:
                renewed = self._look_at_server(self._tls)
            self._look_at_client()
        self._log_warning()
        for tell in self._renewed if renewed else ():
            tell()

    def _look_at_server(self, tls: TlsSettings) -> bool:
        """Whether other files are in use from now on."""
        try:
            contents = _read(tls)
            if contents == self._served:
                self._suspicion = self._failure = ""
                return False
            made = _make(tls)
            _check_dates(_ends_and_beginnings(contents), self._now())
            if _read(tls) != contents:
                return False  # they are being written; check again next time
        except (SettingsError, Unusable) as error:
            self._fail(str(error))
            return False
        was, now = self._served.get("client_ca_file", b""), contents.get("client_ca_file", b"")
        self._authority_removed = bool(authorities(was) - authorities(now))
        self._context, self._served = made, contents
        self._names = dns_names(contents["cert_file"])
        self._suspicion = self._failure = ""
        self._ends |= _ends_of(contents)
        self._reloads["done"] += 1
        log.info("certificates reloaded", ends={name: f"{end:%Y-%m-%d}" for name, end in self._ends.items()})
        return True

    def _fail(self, why: str) -> None:
        """Report an error if it persists at the second check: files that are copied one by one do not fit for a
        moment."""
        if why != self._suspicion:
            self._suspicion = why
        elif why != self._failure:
            self._failure = why
            self._reloads["failed"] += 1
            log.error("new certificates cannot be used, the old ones are kept", why=why)

    def _look_at_client(self) -> None:
        if self._api_client is None:
            return
        try:
            self._ends["api_client"] = min(end for _, end in _dates(self._api_client.read_bytes(), "cluster"))
        except (OSError, Unusable) as error:
            log.debug("the certificate towards the API server cannot be read", error=str(error))

    def refused(self, reason: str, why: str, address: str) -> None:
        """Count a handshake that failed. `reason` is OpenSSL's, or `timeout`. Called in the event loop: takes no
        lock."""
        self._refusals[reason] += 1
        now, logged_at = time.monotonic(), self._refusals_logged_at.get((address, why), float("-inf"))
        if now - logged_at >= _REFUSAL_PAUSE_SECONDS:
            if len(self._refusals_logged_at) >= _MOST_REFUSALS_LOGGED:
                del self._refusals_logged_at[next(iter(self._refusals_logged_at))]
            self._refusals_logged_at[address, why] = now
            log.warning("a caller was refused in the TLS handshake", why=why, address=address)

    # -- reports --------------------------------------------------------------------------------------------------

    def readiness_warning(self) -> str:
        """A problem that an operator has to solve; empty if there is none."""
        with self._lock:
            now, ends, failure = self._now(), dict(self._ends), self._failure
        remarks = [_end_remark(name, end - now, end) for name, end in sorted(ends.items()) if end - now < _NEAR]
        if failure:
            remarks.insert(0, f"new certificates cannot be used, the old ones are kept: {failure}")
        return "; ".join(remarks)

    def _log_warning(self) -> None:
        """Log the warning when it changes: as it counts days, once a day."""
        readiness_warning = self.readiness_warning()
        if readiness_warning and readiness_warning != self._last_warning:
            log.warning("certificates need attention", what=readiness_warning)
        self._last_warning = readiness_warning

    def metrics(self) -> list[Metric]:
        with self._lock:
            ends, reloads, failing = dict(self._ends), dict(self._reloads), bool(self._failure)
        served = self._tls is not None
        refusals = sorted(self._refusals.copy().items())
        return [
            Metric(
                "waggle_certificate_expiry_timestamp_seconds",
                "gauge",
                "When a certificate in use ends, in seconds since 1970.",
                [({"certificate": name}, end.timestamp()) for name, end in sorted(ends.items())],
            ),
            Metric(
                "waggle_certificate_reloads_total",
                "counter",
                "Changed certificate files that were taken into use, or could not be.",
                [({"result": result}, float(count)) for result, count in reloads.items()] if served else [],
            ),
            Metric(
                "waggle_certificate_reload_failing",
                "gauge",
                "1 while the certificate files cannot be used and older ones are served.",
                [({}, float(failing))] if served else [],
            ),
            Metric(
                "waggle_tls_handshakes_refused_total",
                "counter",
                "Connections that ended in the TLS handshake, by OpenSSL's reason.",
                [({"reason": reason}, float(count)) for reason, count in refusals],
            ),
        ]


def _end_remark(name: str, left: timedelta, end: datetime) -> str:
    text = f"the certificate {name} "
    if left <= timedelta(0):
        return f"{text}ended on {end:%Y-%m-%d %H:%M} UTC"
    when = f"{left.days} days" if left.days > 1 else f"{left // timedelta(hours=1)} hours"
    return f"{text}ends in {when}, on {end:%Y-%m-%d %H:%M} UTC"


# -- files --------------------------------------------------------------------------------------------------------

_FIELDS = ("cert_file", "key_file", "client_ca_file")


def _read(tls: TlsSettings) -> _Contents:
    """Read the files, by field. Raises SettingsError."""
    contents = {}
    for field in _FIELDS:
        path: Path | None = getattr(tls, field)
        if path is None:
            continue
        try:
            contents[field] = path.read_bytes()
        except FileNotFoundError as error:
            raise SettingsError(f"server.tls.{field}: no such file: {path}") from error
        except OSError as error:
            raise SettingsError(f"server.tls.{field}: {path}: {error.strerror}") from error
    return contents


def _make(tls: TlsSettings) -> ssl.SSLContext:
    """Make a context of the present files. Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Go's clients resume no session, and two tickets with the peer's certificate are a third of a handshake's cost.
    context.num_tickets = 0
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except (OSError, ValueError) as error:
        raise SettingsError(_fault_of_pair(tls, error)) from error
    try:
        if tls.client_ca_file is not None:
            context.load_verify_locations(tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        why = f"{tls.client_ca_file} holds no whole certificate in PEM ({error})"
        raise SettingsError(f"server.tls.client_ca_file: cannot be used: {why}") from error
    return context


def _fault_of_pair(tls: TlsSettings, error: Exception) -> str:
    """Which file of the pair is at fault: OpenSSL says "PEM lib" for either."""
    from cryptography import x509  # noqa: PLC0415 - takes 80 ms, and is needed when something is wrong only
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        x509.load_pem_x509_certificates(tls.cert_file.read_bytes())
    except (OSError, ValueError):
        return f"server.tls.cert_file: cannot be used: {tls.cert_file} holds no whole certificate in PEM ({error})"
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"server.tls.key_file: cannot be used: {tls.key_file} is not the key of the certificate in cert_file"
    try:
        load_pem_private_key(tls.key_file.read_bytes(), None)
    except (OSError, ValueError):
        return f"server.tls.key_file: cannot be used: {tls.key_file} holds no whole private key in PEM ({error})"
    except TypeError:  # it is encrypted, as the error says
        return f"server.tls.key_file: cannot be used: {error}"
    return f"server.tls: cannot be used: {error}"


def _no_password() -> str:
    """Refuse a password: otherwise, OpenSSL would ask for the password of an encrypted key at the terminal."""
    raise ValueError("the key is encrypted; it has to be readable without a password")


# -- dates --------------------------------------------------------------------------------------------------------

#: By name, the beginning and end of every certificate in the file.
_Dates = dict[str, list[tuple[datetime, datetime]]]


def _dates(pem: bytes, what: str) -> list[tuple[datetime, datetime]]:
    """Beginning and end of each certificate in a PEM file. Raises Unusable."""
    from cryptography import x509  # noqa: PLC0415 - takes 80 ms, and is needed with TLS only

    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise Unusable(f"{what}: {error}") from error
    return [(each.not_valid_before_utc, each.not_valid_after_utc) for each in found]


def _ends_and_beginnings(contents: _Contents) -> _Dates:
    dates = {"server": _dates(contents["cert_file"], "server.tls.cert_file")}
    if "client_ca_file" in contents:
        dates["client_ca"] = _dates(contents["client_ca_file"], "server.tls.client_ca_file")
    return dates


def _ends_of(contents: _Contents) -> dict[str, datetime]:
    """When the files expire: a chain with the first of its certificates to expire, a bundle of authorities with the
    last one. Raises SettingsError."""
    try:
        dates = _ends_and_beginnings(contents)
    except Unusable as error:
        raise SettingsError(str(error)) from error
    last = {"server": min, "client_ca": max}
    return {name: last[name](end for _, end in found) for name, found in dates.items()}


def _check_dates(dates: _Dates, now: datetime) -> None:
    """Raise Unusable, unless the chain and one of the authorities are valid now."""
    for begin, end in dates["server"]:
        if now > end:
            raise Unusable(f"server.tls.cert_file: ended on {end:%Y-%m-%d %H:%M} UTC")
        if now < begin:
            raise Unusable(f"server.tls.cert_file: begins on {begin:%Y-%m-%d %H:%M} UTC only")
    authorities = dates.get("client_ca", [])
    if authorities and not any(begin <= now <= end for begin, end in authorities):
        raise Unusable("server.tls.client_ca_file: no authority in it holds today")
