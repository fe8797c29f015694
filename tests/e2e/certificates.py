"""Certificates made on the fly: an authority, and what it signs. Files `NAME.crt` and `NAME.key` in one folder.

Elliptic curves, valid for a day: made in a millisecond, and useless tomorrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)
_SERVER_NAMES = (
    x509.IPAddress(ip_address("127.0.0.1")),
    x509.DNSName("localhost"),
    x509.DNSName("kubernetes.default.svc"),
)


class Pair(NamedTuple):
    """A certificate and its private key, both PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that lives in a folder; `certificate` is its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _subject(f"waggle e2e {name}")
        certificate = (
            self._begin(self._subject, self._key, valid_for=_DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = _write(folder / name, self._key, certificate).certificate

    def server(self, name: str) -> Pair:
        """For whoever serves on 127.0.0.1."""
        names = x509.SubjectAlternativeName(_SERVER_NAMES)
        return self._issue(name, _subject(name), ExtendedKeyUsageOID.SERVER_AUTH, _DAY, names)

    def client(
        self, name: str, common_name: str, organizations: Sequence[str] = (), *, valid_for: timedelta = _DAY
    ) -> Pair:
        """For the user `common_name` in the groups `organizations`. Expired already if `valid_for` is negative."""
        return self._issue(name, _subject(common_name, organizations), ExtendedKeyUsageOID.CLIENT_AUTH, valid_for)

    def _issue(
        self,
        name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        valid_for: timedelta,
        names: x509.SubjectAlternativeName | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        draft = self._begin(subject, key, valid_for=valid_for)
        draft = draft.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            draft = draft.add_extension(names, critical=False)
        return _write(self._folder / name, key, draft.sign(self._key, hashes.SHA256()))

    def _begin(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, valid_for: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + valid_for)
        )


def signing_pair(folder: Path, name: str) -> Pair:
    """A bare key pair, with which the API server signs the tokens of service accounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = folder / f"{name}.pub"
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return Pair(public, _write_key(folder / f"{name}.key", key))


def _subject(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    parts = [(NameOID.COMMON_NAME, common_name), *((NameOID.ORGANIZATION_NAME, each) for each in organizations)]
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


def _write(path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Pair:
    written = path.with_name(f"{path.name}.crt")
    written.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Pair(written, _write_key(path.with_name(f"{path.name}.key"), key))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return path
