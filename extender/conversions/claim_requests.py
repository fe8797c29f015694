"""Why a Claim object is refused before it is asked for: by the server, and by a plan."""

from __future__ import annotations

from extender.claim_settings import ClaimSettings
from extender.claims.codes import ClaimCode
from extender.resources import ClaimSpec


def refusal(spec: ClaimSpec, namespace: str, settings: ClaimSettings) -> tuple[ClaimCode, str] | None:
    """Return a code, and a text that names the field; None if the claim may be asked for."""
    for field, value, most in (
        ("waitSeconds", spec.wait_seconds, settings.max_wait_seconds),
        ("leaseSeconds", spec.lease_seconds, settings.max_lease_seconds),
    ):
        if value is not None and value > most:
            return ClaimCode.NOT_POSSIBLE, f"spec.{field}: expected at most {most:g}, got {value}"
    if settings.authorization == "kubernetes" and spec.tenant not in ("", namespace):
        # The object does not say who created it, so the right of that user to act for others cannot be checked.
        return ClaimCode.NOT_YOURS, f"spec.tenant: expected {namespace} or nothing, got {spec.tenant}"
    return None
