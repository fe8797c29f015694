"""Plan files: a plan with all that is needed to compare it with the cluster later, and to create what it planned.

    waggle plan -f . --out PLAN.json   -->   PlanFile   -->   waggle apply PLAN.json
                                                        -->   waggle plan diff A.json B.json

A file has a bound in size, and the version of its format. It holds the manifests that it would create.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from extender.plan.records import VERSION, Changes, Options, Plan

#: Bytes of a file that is read: a plan of 100,000 pods has some 60 MiB.
MOST_BYTES = 256 << 20

T = TypeVar("T")


class PlanFileError(ValueError):
    """A file is no plan that this release can read; the message says why."""


class PlanFile(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, what it was made of, and the state that it holds for."""

    version: int = VERSION
    release: str = ""
    plan: Plan
    changes: Changes = msgspec.field(default_factory=Changes)
    options: Options = msgspec.field(default_factory=Options)
    #: Of objects that name none, and are of a kind that a plan does not know.
    namespace: str = "default"
    #: The configurations that it was made with: Waggle's, and kube-scheduler's.
    settings: str = ""
    scheduler: str = ""
    #: Whether options named them. Otherwise they were read from the cluster, and are read from it again.
    has_own_settings: bool = False
    has_own_scheduler: bool = False
    #: `Fingerprint.parts` of the state.
    parts: dict[str, str] = {}


class _Head(msgspec.Struct):
    version: Any = None
    release: Any = ""
    plan: msgspec.Raw = msgspec.Raw()

    @property
    def has_plan(self) -> bool:
        return bool(bytes(self.plan))


def encode(file: PlanFile) -> bytes:
    """Return the bytes of a file."""
    return msgspec.json.encode(file) + b"\n"


def decode(data: bytes) -> PlanFile:
    """Return the file that `waggle plan --out` wrote. Raises PlanFileError."""
    head = _head(data)
    if not head.has_plan:
        raise PlanFileError("has a plan, but not what it would create: write the file with `waggle plan --out`")
    return _decoded(data, PlanFile)


def decode_any(data: bytes) -> PlanFile:
    """Return a file, or the plan that `waggle plan -o json` printed as one. Raises PlanFileError."""
    if _head(data).has_plan:
        return _decoded(data, PlanFile)
    return PlanFile(plan=_decoded(data, Plan))


def _head(data: bytes) -> _Head:
    if len(data) > MOST_BYTES:
        raise PlanFileError(f"has more than {MOST_BYTES >> 20} MiB")
    head = _decoded(data, _Head)
    if head.version != VERSION or isinstance(head.version, bool):
        of = f", written by release {str(head.release)[:50]}," if head.release else ""
        raise PlanFileError(f"is of version {str(head.version)[:20]}{of} but this release reads version {VERSION}")
    return head


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanFileError(f"is no plan: {str(error)[:300]}") from error
