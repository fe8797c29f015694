"""Reads certificate files: who signed a client's certificate, and the DNS names of a server's certificate."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


def authorities(pem: bytes) -> frozenset[bytes]:
    """Return each certificate in a PEM file, in DER. Raises ValueError."""
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - takes 80 ms; with TLS only

    return frozenset(each.public_bytes(Encoding.DER) for each in _load(pem))


def not_signed_by(pem: bytes, certificates: Iterable[bytes]) -> set[bytes]:
    """Return the `certificates` (DER) that no certificate in the PEM file has signed directly. Raises ValueError."""
    from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415

    signers = _load(pem)
    loaded = {der: load_der_x509_certificate(der) for der in certificates}
    return {der for der, each in loaded.items() if not any(_signed(each, signer) for signer in signers)}


def dns_names(pem: bytes) -> frozenset[str]:
    """Return the DNS names of the first certificate in a PEM file, in lower case. Raises ValueError."""
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName  # noqa: PLC0415

    try:
        names = _load(pem)[0].extensions.get_extension_for_class(SubjectAlternativeName).value
    except (ExtensionNotFound, IndexError):
        return frozenset()
    return frozenset(name.lower() for name in names.get_values_for_type(DNSName))


def lifetime(pem: bytes) -> tuple[datetime, datetime]:
    """Return beginning and end of the first certificate in a PEM file. Raises ValueError."""
    found = _load(pem)
    if not found:
        raise ValueError("no certificate in it")
    return found[0].not_valid_before_utc, found[0].not_valid_after_utc


def first(pem: bytes) -> bytes:
    """Return the first certificate in a PEM file, in DER. Raises ValueError."""
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    found = _load(pem)
    if not found:
        raise ValueError("no certificate in it")
    return found[0].public_bytes(Encoding.DER)


def _load(pem: bytes) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    return load_pem_x509_certificates(pem) if pem.strip() else []


def _signed(certificate: Certificate, signer: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    try:
        certificate.verify_directly_issued_by(signer)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True
