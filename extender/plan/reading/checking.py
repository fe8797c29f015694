"""Whether the API server would take an object, and whether a plan can read it: every fault names its field.

Defaults, rules and texts are those of the embedded API server, which follow Kubernetes. Pod templates are checked as
the pods that they make.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from algorithm.decoding import DecodeError
from extender.embedded.apiserver.defaults import set_defaults
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.objects import encode, text, without_nulls
from extender.embedded.apiserver.resources import ResourceTable
from extender.embedded.apiserver.table import PODS, TABLE
from extender.embedded.apiserver.validation import read_metadata, validate
from extender.embedded.kubescheduler.budgets import decode_budget
from extender.embedded.kubescheduler.model import decode_node, decode_pod
from extender.plan.reading.kinds import WAGGLE, Role, group_of, role_of
from extender.plan.reading.workloads import Batch, WorkloadFault, batches
from extender.resources import Claim, Pool, ResourceError, VPod, VPodSet, read

Object = dict[str, Any]

_ROWS = ResourceTable(TABLE)
_KINDS = {(row.group, row.kind): row for row in reversed(TABLE)}
_MODELS: dict[str, Any] = {"Pool": Pool, "Claim": Claim, "VPodSet": VPodSet, "VPod": VPod}
#: What wrong types deep inside an object raise in code that expects a checked one.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError)
_ALPHA = re.compile("alpha|beta")
_MOST = 5
_LONGEST = 500


class Place(NamedTuple):
    """An object, and where it stands."""

    origin: str
    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.origin} ({self.kind} {name[:300]})" if self.name else f"{self.origin} ({self.kind})"


def check(obj: Object, place: Place) -> list[str]:
    """Return what is wrong with the object, as "field: what was expected"; nothing if it can be planned."""
    role = role_of(place.api_version, place.kind)
    if role in (Role.UNKNOWN, Role.SECRET, Role.PLAIN):
        return []
    faults = _checked(obj, place, role)
    more = len(faults) - _MOST
    shown = [each if len(each) <= _LONGEST else f"{each[:_LONGEST]}..." for each in faults[:_MOST]]
    return [*shown, f"and {more} more fields"] if more > 0 else shown


def _checked(obj: Object, place: Place, role: Role) -> list[str]:
    row = _ROWS.by_kind(place.api_version, place.kind)
    try:
        read_metadata(without_nulls(obj))
        if row is not None:
            _validate(without_nulls(obj), row, place)  # a copy: it is filled in
        elif (known := _KINDS.get((group_of(place.api_version), place.kind))) is not None:
            if not _ALPHA.search(known.version):  # of which every cluster may have another version
                return [f"apiVersion: expected {known.api_version}, got {place.api_version}"]
        elif group_of(place.api_version) == WAGGLE:
            read(_MODELS[place.kind], obj)
        if role is Role.MAKES_PODS:
            for batch in {each.path: each for each in batches(without_nulls(obj))}.values():
                check_template(batch)
    except ApiError as error:
        return texts_of(error)
    except (ResourceError, WorkloadFault) as error:
        return [str(error)]
    except DecodeError as error:
        return [_in_plain_words(error)]
    except MALFORMED as error:
        return [f"expected a {place.kind} as the API server takes it; it cannot be read: {error!r}"]
    return []


def _validate(obj: Object, row: Any, place: Place) -> None:
    """Raises ApiError or DecodeError."""
    if place.kind == "Pod":
        decode_pod(encode(obj))
    elif place.kind == "Node":
        decode_node(encode(obj))
    elif place.kind == "PodDisruptionBudget":
        decode_budget(encode(obj))
    set_defaults(row, obj)
    validate(row, obj)


def check_template(batch: Batch) -> None:
    """Check the first pod of a batch. Raises WorkloadFault, naming the field in the template."""
    pod = batch.first_pod()
    try:
        decode_pod(encode(pod))
        read_metadata(pod)
        set_defaults(PODS, pod)
        validate(PODS, pod)
        text(pod["spec"], "priorityClassName", "spec")
    except ApiError as error:
        raise WorkloadFault("; ".join(_below(batch.path, each) for each in texts_of(error))) from error
    except DecodeError as error:
        raise WorkloadFault(_below(batch.path, _in_plain_words(error))) from error


def _below(path: str, fault: str) -> str:
    """A fault of a pod as one of the template that makes it."""
    return f"{path}.{fault}" if path and fault.startswith(("spec", "metadata")) else fault


def texts_of(error: ApiError) -> list[str]:
    """Return the fields at fault, each with what is wrong."""
    causes = error.body.get("details", {}).get("causes", [])
    return [f"{each['field']}: {each['message']}" for each in causes if "field" in each] or [str(error)]


def _in_plain_words(error: DecodeError) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.spec.priority`" with the field in front."""
    what, at, path = str(error).partition(" - at `$")
    return f"{path.rstrip('`').lstrip('.')}: {what[:1].lower()}{what[1:]}" if at else what


def as_object(raw: bytes) -> Object:
    """Return an object of a cluster or of `read_documents`, as JSON values. Raises DecodeError."""
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error
    if not isinstance(found, dict):
        raise DecodeError("expected an object")
    return found
