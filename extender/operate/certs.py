"""Makes the certificates of both sides of mutual TLS, for clusters without cert-manager.

    CA (ten years, its key stays with the operator)
     +-- server certificate   Waggle shows it; holds the names and addresses by which it is called
     +-- client certificates  kube-scheduler (and Prometheus, or people) show one; Waggle serves the clients of that CA

In a folder, ready to be mounted as a Secret would be:

    ca.crt  ca.key
    server/          tls.crt  tls.key  ca.crt
    kube-scheduler/  tls.crt  tls.key  ca.crt        one folder for each client

Keys are readable by their owner only, and nothing is overwritten unless that was said. A file is replaced in one step,
so that a reader never sees half of it.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from extender.operate.output_files import replace_file

#: Clocks of other machines may be behind; and a CA ends a moment after what it signs for as many days.
_CLOCK_SKEW = timedelta(minutes=5)
_LONGEST_NAME = 64
_LONGEST_HOST = 253
#: What may stand between two dots of a DNS name; and what Kubernetes takes for a namespace, a Service or (with dots) a
#: Secret. Anything else would be signed without a word, and nobody could ever be called so.
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class CertsError(ValueError):
    """The certificates cannot be made as asked; nothing was written."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A CA that signs certificates for servers and clients."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def new(cls, name: str = "waggle", *, days: int = 3650, now: datetime | None = None) -> Authority:
        """A CA of its own. Raises CertsError."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(f"{name} CA")
        builder = _builder(subject, subject, key.public_key(), days=days, now=now or datetime.now(UTC) + _CLOCK_SKEW)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def read(cls, pair: Pair) -> Authority:
        """Raises CertsError."""
        try:
            key = serialization.load_pem_private_key(pair.key, None)
            certificate = x509.load_pem_x509_certificate(pair.certificate)
        except (ValueError, TypeError) as error:
            raise CertsError(f"ca.crt, ca.key: cannot be read: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise CertsError("ca.key: is not the key of ca.crt")
        return cls(certificate, key)

    @property
    def pair(self) -> Pair:
        return _pair(self._certificate, self._key)

    @property
    def ends(self) -> datetime:
        return self._certificate.not_valid_after_utc

    def server(self, hosts: Iterable[str], *, days: int = 365, now: datetime | None = None) -> Pair:
        """A server certificate for `hosts`: DNS names and IP addresses. Raises CertsError."""
        names = [_general_name(host) for host in dict.fromkeys(hosts)]
        if not names:
            raise CertsError("--host: a server certificate needs a name or an address")
        return self._sign("waggle", ExtendedKeyUsageOID.SERVER_AUTH, names, days=days, now=now)

    def client(self, name: str, *, days: int = 365, now: datetime | None = None) -> Pair:
        """A certificate with which a client of this name shows that it may call. Raises CertsError."""
        return self._sign(name, ExtendedKeyUsageOID.CLIENT_AUTH, [], days=days, now=now)

    def _sign(
        self,
        name: str,
        usage: x509.ObjectIdentifier,
        names: Sequence[x509.GeneralName],
        *,
        days: int,
        now: datetime | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        begins = now or datetime.now(UTC)
        if begins + timedelta(days=days) > self.ends:
            raise CertsError(f"--days: the CA ends on {self.ends:%Y-%m-%d}, before a certificate of {days} days would")
        builder = _builder(_subject(name), self._certificate.subject, key.public_key(), days=days, now=begins)
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _pair(builder.sign(self._key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    if not 0 < len(name) <= _LONGEST_NAME:
        raise CertsError(f"{name!r}: a name has 1 to {_LONGEST_NAME} characters")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.removeprefix("*.").split(".")
    if len(host) > _LONGEST_HOST or not all(_HOST_LABEL.fullmatch(label) for label in labels):
        raise CertsError(f"--host: {host!r} is neither an IP address nor a DNS name, such as waggle.example.com")
    return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(pem), private)


def hosts_of(certificate: bytes) -> list[str]:
    """The names and addresses in a server certificate (PEM). Raises CertsError."""
    try:
        read = x509.load_pem_x509_certificate(certificate)
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise CertsError(f"server/tls.crt: cannot be read: {error}") from error
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _check_label(option: str, name: str) -> None:
    if not _LABEL.fullmatch(name):
        raise CertsError(f"{option}: {name!r} is no name for Kubernetes, which takes a-z, 0-9 and -")


# -- the folder ---------------------------------------------------------------------------------------------------

SERVER = "server"


def service_hosts(service: str, namespace: str) -> list[str]:
    """Every name by which a Service is called inside a cluster, and the loopback. Raises CertsError."""
    for option, name in (("--service", service), ("--namespace", namespace)):
        _check_label(option, name)
    names = [
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc",
        f"{service}.{namespace}.svc.cluster.local",
    ]
    return [*names, "localhost", "127.0.0.1", "::1"]


def create(
    folder: Path, hosts: Iterable[str], clients: Iterable[str], *, days: int, ca_days: int, force: bool
) -> list[Path]:
    """A CA with everything that it signs, in `folder`; the files. Raises CertsError or OSError."""
    authority = Authority.new(days=ca_days)
    files = {"ca.crt": authority.pair.certificate, "ca.key": authority.pair.key}
    files |= _signed(authority, {SERVER: authority.server(hosts, days=days)}, clients, days)
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        raise CertsError(
            f"{folder / there[0]}: is there already. --renew makes new certificates with the CA in that folder; "
            "--force replaces the CA too, and then nothing that it signed works any more"
        )
    return _write(folder, files)


def renew(folder: Path, hosts: Iterable[str], clients: Iterable[str], *, days: int) -> list[Path]:
    """New certificates from the CA in `folder`: for those that have one, or as given. Raises CertsError."""
    try:
        authority = Authority.read(Pair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes()))
        wanted = list(hosts) or hosts_of((folder / SERVER / "tls.crt").read_bytes())
    except OSError as error:
        raise CertsError(f"--renew: {error.filename}: {error.strerror}") from error
    server = {SERVER: authority.server(wanted, days=days)}
    return _write(folder, _signed(authority, server, list(clients) or clients_in(folder), days))


def clients_in(folder: Path) -> list[str]:
    """The clients that have a certificate there."""
    return sorted(path.parent.name for path in folder.glob("*/tls.crt") if path.parent.name != SERVER)


def _signed(authority: Authority, pairs: Mapping[str, Pair], clients: Iterable[str], days: int) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    named = list(clients)
    for taken in set(named) & pairs.keys():
        raise CertsError(f"--client: {taken!r} is the folder of Waggle's own certificate")
    for name, pair in {**pairs, **{name: authority.client(name, days=days) for name in named}}.items():
        if name != Path(name).name or name in ("", ".", ".."):
            raise CertsError(f"--client: {name!r} cannot be the name of a folder")
        files |= {f"{name}/tls.crt": pair.certificate, f"{name}/tls.key": pair.key}
        files[f"{name}/ca.crt"] = authority.pair.certificate
    return files


def _write(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    written = []
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content, mode=0o600 if path.suffix == ".key" else 0o644)
        written.append(path)
    return written


def check_names_of_secrets(clients: Iterable[str], namespace: str) -> None:
    """Raises CertsError if Secrets could not be named after them."""
    _check_label("--namespace", namespace)
    for name in clients:
        if not all(_LABEL.fullmatch(label) for label in name.split(".")):
            raise CertsError(f"--secrets: the client {name!r} is no name for a Secret: a-z, 0-9, - and dots")


def secrets(folder: Path, clients: Iterable[str], namespace: str, service: str = "waggle") -> str:
    """The server's and the clients' files as Kubernetes Secrets: waggle-server-tls, waggle-<client>-tls.

    `service` is how they begin, where Waggle's Service has another name. Of `waggle-viewer` it is waggle-viewer-tls.
    """
    return "---\n".join(
        yaml.safe_dump(
            _secret(folder / name, f"{service}-{name.removeprefix('waggle-')}-tls", namespace), sort_keys=False
        )
        for name in (SERVER, *clients)
    )


def _secret(folder: Path, name: str, namespace: str) -> dict[str, object]:
    keys = ("tls.crt", "tls.key", "ca.crt")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode((folder / key).read_bytes()).decode() for key in keys},
    }
