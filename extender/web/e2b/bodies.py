"""The bodies of E2B's API, with E2B's names, and the annotation that keeps a sandbox's fields on its pod.

Known fields that Waggle cannot support are refused if their value requests something. Unknown fields are ignored,
because E2B's API grows.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from extender.claims.views import ClaimView
from extender.web.claims.bodies import moment

#: E2B's default time-out of a sandbox, seconds.
DEFAULT_TIMEOUT = 15
#: The oldest version of E2B's daemon that its package supports. A pool's pods run it only if their image has it.
_ENVD = "0.1.0"
_Text = Annotated[str, StringConstraints(max_length=4096)]
#: Fields that cannot be applied to a running pod, with the values that request nothing.
_IMPOSSIBLE: dict[str, tuple[Any, ...]] = {
    "envVars": ({}, None),
    "autoPause": (False, None),
    "mcp": ({}, None),
    "iam": ({}, None),
    "network": ({}, None),
    "volumeMounts": ([], None),
    "allow_internet_access": (True, None),
}


class NewSandbox(BaseModel):
    """The body that creates a sandbox. `timeout`: seconds."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    templateID: str = Field(min_length=1, max_length=320)  # noqa: N815 - E2B's name
    timeout: int = Field(DEFAULT_TIMEOUT, ge=0, le=366 * 86_400)
    metadata: dict[_Text, _Text] | None = Field(None, max_length=64)

    @model_validator(mode="before")
    @classmethod
    def _asks_for_nothing_impossible(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for name, nothing in _IMPOSSIBLE.items():
                if name in given and given[name] not in nothing:
                    raise ValueError(f"{name}: not possible, because a sandbox is a pod that is already running")
        return given

    @field_validator("metadata")
    @classmethod
    def _is_small(cls, metadata: dict[str, str] | None) -> dict[str, str] | None:
        if metadata and len(msgspec.json.encode(metadata)) > 15_000:
            raise ValueError("expected at most 15000 bytes")
        return metadata


class Timeout(BaseModel):
    """`timeout`: seconds from now. Optional only when connecting."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    timeout: int | None = Field(None, ge=0, le=366 * 86_400)


class Refresh(BaseModel):
    """`duration`: seconds from now."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    duration: int = Field(DEFAULT_TIMEOUT, ge=0, le=366 * 86_400)


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation on the pod: the template's name in the request, the start (seconds since 1970), the metadata."""

    template: str
    started: float = 0.0
    metadata: dict[str, str] = {}

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def note_of(view: ClaimView) -> Note | None:
    """Return the annotation on the claim's pod; None if the claim is not a sandbox, or the annotation cannot be
    decoded: every client that may write pods can change it."""
    text = view.pods[0].sandbox if view.pods else ""
    try:
        return msgspec.json.decode(text, type=Note) if text else None
    except msgspec.MsgspecError:
        return None


def sandbox_body(claim: str, pod: str, template: str, domain: str) -> dict[str, Any]:
    """Return the answer to a creation or a connection. `clientID` is the pod's name."""
    return {
        "sandboxID": claim,
        "templateID": template,
        "clientID": pod,
        "envdVersion": _ENVD,
        "trafficAccessToken": None,
        "domain": domain or None,
    }


def detail_body(view: ClaimView, note: Note, domain: str) -> dict[str, Any]:
    """Return the full description of a sandbox. The sizes are 0: the pod's specification has them."""
    (pod, *_) = view.pods
    return {
        **sandbox_body(view.name, pod.name, note.template, domain),
        "alias": view.pool.name,
        "startedAt": moment(note.started),
        "endAt": moment(view.expires),
        "state": "running",
        "cpuCount": 0,
        "memoryMB": 0,
        "diskSizeMB": 0,
        "metadata": note.metadata,
        "namespace": view.pool.namespace,
        "node": pod.node,
        "addresses": list(pod.addresses),
    }
