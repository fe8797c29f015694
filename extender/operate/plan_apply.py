"""Creates the objects of a plan through the API server: all of them are tried by a dry run first, then made in order.

    find --> those that exist are left as they are --> dry run of the others --> create, one after the other

Repeating is harmless: what exists is not touched. A write whose outcome is not known (no answer came) is read back. A
failure ends it, and the result says what exists and what does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from extender.core.requests import collection_path, object_path
from extender.kube.client.api import ApiError, ApiServer, Interrupted, Response
from extender.plan.reading.kinds import group_of
from extender.plan.records import RawObject

#: How often a throttled request is repeated, and how long one wait may be, seconds.
_TRIES: Final = 5
_LONGEST_WAIT: Final = 10.0
#: Faults of a dry run that are named.
_NAMED: Final = 20
_MOST: Final = 4 << 20
_DRY_RUN: Final = {"dryRun": "All", "fieldManager": "waggle-plan"}
_WRITE: Final = {"fieldManager": "waggle-plan"}


class ApplyError(RuntimeError):
    """Nothing was created; the message says why."""


class _ApiResource(msgspec.Struct):
    name: str
    kind: str = ""
    namespaced: bool = False


class _ApiResources(msgspec.Struct):
    resources: list[_ApiResource] = []


class _PodSpec(msgspec.Struct):
    priority_class: str = msgspec.field(default="", name="priorityClassName")


class _Pod(msgspec.Struct):
    spec: _PodSpec


@dataclass
class Applied:
    """What exists at the end: made now, or before; and what failed and what was not tried, if something failed."""

    made: list[RawObject] = field(default_factory=list)
    left: list[RawObject] = field(default_factory=list)
    failure: str = ""


class Creator:
    """Creates objects. `namespace` is that of objects that name none."""

    def __init__(self, api: ApiServer, namespace: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._api = api
        self._namespace = namespace
        self._sleep = sleep
        self._known: dict[str, dict[str, _ApiResource]] = {}

    def missing(self, objects: Sequence[RawObject]) -> list[RawObject]:
        """Return those that do not exist. Raises ApplyError, ApiError."""
        return [each for each in objects if not self._exists(each)]

    def try_out(self, objects: Sequence[RawObject]) -> None:
        """Let the API server check them all, without a change. Raises ApplyError with what it refuses; ApiError.

        An object in a namespace, or a pod of a priority class, that is created with it cannot be tried before that
        exists.
        """
        new = {(each.kind, each.name) for each in objects}
        faults = []
        for each in objects:
            if ("Namespace", each.namespace) in new or ("PriorityClass", _class_of(each)) in new:
                continue
            answer = self._post(each, _DRY_RUN)
            if not answer.ok and not _exists_already(answer):
                faults.append(f"{_told(each)}: {answer.message}")
        if faults:
            more = f"\nand {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
            raise ApplyError("the API server would refuse\n" + "\n".join(faults[:_NAMED]) + more)

    def create(self, objects: Sequence[RawObject]) -> Applied:
        """Create them in this order, up to the first one that fails."""
        done = Applied()
        for number, each in enumerate(objects):
            if failure := self._create(each):
                done.failure, done.left = f"{_told(each)}: {failure}", list(objects[number:])
                break
            done.made.append(each)
        return done

    def _create(self, each: RawObject) -> str:
        """Create one; "" if it exists then, else why not."""
        try:
            answer = self._post(each, _WRITE)
        except Interrupted as error:
            return self._read_back(each, str(error))
        except ApiError as error:
            return str(error)
        return "" if answer.ok or _exists_already(answer) else answer.message

    def _read_back(self, each: RawObject, why: str) -> str:
        try:
            return "" if self._exists(each) else why
        except (ApiError, ApplyError) as error:
            return f"{why}; whether it exists is not known: {error}"

    def _exists(self, each: RawObject) -> bool:
        path = object_path(self._collection(each), each.name)
        answer = self._request("GET", path, None, None)
        if answer.status not in (200, 404):
            raise ApplyError(f"{_told(each)}: {answer.message}")
        return answer.ok

    def _post(self, each: RawObject, query: dict[str, str]) -> Response:
        return self._request("POST", self._collection(each), query, each.json)

    def _collection(self, each: RawObject) -> str:
        found = self._resource(each)
        group, version = group_of(each.api_version), each.api_version.rpartition("/")[2]
        namespace = (each.namespace or self._namespace) if found.namespaced else ""
        return collection_path(found.name, group=group, version=version, namespace=namespace)

    def _resource(self, each: RawObject) -> _ApiResource:
        if each.api_version not in self._known:
            self._known[each.api_version] = self._resources(each)
        found = self._known[each.api_version].get(each.kind)
        if found is None:
            raise ApplyError(f"{_told(each)}: the API server does not know {each.api_version} {each.kind}")
        return found

    def _resources(self, each: RawObject) -> dict[str, _ApiResource]:
        path = collection_path("", group=group_of(each.api_version), version=each.api_version.rpartition("/")[2])
        answer = self._request("GET", path.rstrip("/"), None, None)
        if answer.status not in (200, 404):
            raise ApplyError(f"{path}: {answer.message}")
        try:
            found = msgspec.json.decode(answer.body, type=_ApiResources).resources if answer.ok else []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ApplyError(f"{path}: no list of resources: {error}") from error
        return {resource.kind: resource for resource in found if "/" not in resource.name}

    def _request(self, method: str, path: str, query: dict[str, str] | None, body: bytes | None) -> Response:
        """Make a call; a throttled one again, after the time that the API server asks for."""
        for _ in range(_TRIES - 1):
            answer = self._api.request(method, path, query=query, body=body, most=_MOST)
            if answer.status != 429:
                return answer
            self._sleep(min(answer.retry_after or 1.0, _LONGEST_WAIT))
        return self._api.request(method, path, query=query, body=body, most=_MOST)


def _told(each: RawObject) -> str:
    return f"{each.target} ({each.origin})" if each.origin else str(each.target)


def _exists_already(answer: Response) -> bool:
    return answer.status == 409 and b'"AlreadyExists"' in answer.body


def _class_of(each: RawObject) -> str:
    """Return the priority class of a pod; "" for other objects."""
    return msgspec.json.decode(each.json, type=_Pod).spec.priority_class if each.kind == "Pod" else ""
