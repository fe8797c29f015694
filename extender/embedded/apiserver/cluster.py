"""The verbs: create, update, patch, delete. Each either happens completely, as one revision, or raises ApiError.

Rules follow k8s.io/apiserver pkg/registry/generic/registry and the strategies of k8s.io/kubernetes pkg/registry; what
is special to pods (binding, eviction) is in `pods.py`. Nothing here waits: one event loop calls everything, so every
verb is atomic.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from extender.embedded.apiserver import errors
from extender.embedded.apiserver.admission import SYSTEM_CLASSES, admit_pod, keep_priority
from extender.embedded.apiserver.defaults import set_creation_defaults, set_defaults
from extender.embedded.apiserver.objects import Object, items, timestamp, without_nulls
from extender.embedded.apiserver.patches import STRATEGIC, patch_with
from extender.embedded.apiserver.resources import Resource, ResourceTable, Target
from extender.embedded.apiserver.store import Store, Stored
from extender.embedded.apiserver.table import NAMESPACES, PRIORITY_CLASSES, TABLE
from extender.embedded.apiserver.validation import read_metadata, validate, validate_update
from extender.embedded.apiserver.views import as_shown, as_stored

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: Set by the server; whatever a client sends for them is replaced by what is stored.
_SYSTEM_METADATA = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The part of DeleteOptions that is honoured. Seconds; None means the object's own grace period."""

    grace_period_seconds: int | None = None
    preconditions: dict[str, str | None] | None = None
    #: Orphan: what the object owns stays. Everything else means Background.
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


class Cluster:
    """A store with the API's rules. `seed` makes uids and generated names reproducible; `clock` gives Unix seconds."""

    def __init__(
        self,
        table: ResourceTable | None = None,
        *,
        history: int = 5000,
        seed: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.table = table or ResourceTable(TABLE)
        self.store = Store(self.table, history=history)
        self.clock = clock
        self._random = random.Random(seed)  # noqa: S311 - names and uids, no secrets
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create(Target(NAMESPACES), {"metadata": {"name": name}})
        for name, value in SYSTEM_CLASSES.items():
            self.create(Target(PRIORITY_CLASSES), {"metadata": {"name": name}, "value": value})

    def now(self) -> str:
        return timestamp(self.clock())

    def require(self, target: Target) -> Stored:
        """The object that `target` names. Raises 404."""
        stored = self.store.collection(target.resource).get((target.namespace, target.name))
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return stored

    def create(self, target: Target, body: Object) -> Stored:
        """Raises 400, 403, 409 AlreadyExists or 422."""
        resource = target.resource
        obj = _accept(target, body)
        metadata = obj["metadata"]
        if metadata.pop("resourceVersion", ""):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"][:58] + self._suffix()
        for key in _SYSTEM_METADATA:
            metadata.pop(key, None)
        set_defaults(resource, obj)
        set_creation_defaults(resource, obj, now=self.now())
        validate(resource, obj)
        if resource.kind == "Pod":
            admit_pod(self.store, obj)
        if self.store.collection(resource).get((target.namespace, metadata["name"])) is not None:
            raise errors.already_exists(resource, metadata["name"])
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.now()
        if resource.generation:
            metadata["generation"] = 1
        return self.store.put(resource, obj)

    def update(self, target: Target, body: Object) -> Stored:
        """Replace an object, or with the subresource `status` only its status. Raises 400, 404, 409 or 422."""
        obj = _accept(target, body)
        return self._replace(target, self.require(target), obj)

    def patch(self, target: Target, patch: Any, media_type: str) -> Stored:
        """Raises 400, 404, 409, 415 or 422."""
        resource = target.resource
        apply = patch_with(media_type)
        if apply is None:
            raise errors.bad_request(f"no patch has the type {media_type}")
        old = self.require(target)
        shown = {"kind": resource.kind, "apiVersion": resource.api_version, **as_shown(resource, old.fresh())}
        changed = apply(shown, patch)
        if not isinstance(changed, dict):
            raise errors.bad_request("the patched object must be a JSON object")
        return self._replace(target, old, _accept(target, changed))

    def apply(self, target: Target, manifest: Object) -> tuple[Stored, bool]:
        """Server-side apply as a merge: lists of named things are merged by their key, what the manifest leaves out
        stays. Nobody owns fields here, so nothing conflicts. Returns the object, and whether it is new. Raises as
        `create` and `patch` do.
        """
        if self.store.collection(target.resource).get((target.namespace, target.name)) is not None:
            return self.patch(target, manifest, STRATEGIC), False
        if target.subresource:
            raise errors.not_found(target.resource, target.name)
        return self.create(Target(target.resource, target.namespace), _named(manifest, target.name)), True

    def _replace(self, target: Target, old: Stored, new: Object) -> Stored:
        resource, before = target.resource, old.fresh()
        _check_preconditions(target, old, new["metadata"])
        _keep_server_side(target, before, new)
        if resource.kind == "Pod":
            keep_priority(new, before)
        set_defaults(resource, new)
        validate(resource, new)
        validate_update(resource, new, before)
        if new == before:
            return old
        if resource.generation and new.get("spec") != before.get("spec"):
            new["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        if "deletionTimestamp" in new["metadata"] and _may_vanish(new):
            return self.store.remove(resource, self.store.put(resource, new))
        return self.store.put(resource, new)

    def delete(self, target: Target, options: DeleteOptions | None = None) -> Stored:
        """Delete at once, or begin to: a pod on a node stays until its kubelet has stopped it (or grace is 0), an
        object with finalizers until they are gone. Returns its last state. Raises 404, or 409 for preconditions.
        A dry run raises the same, and changes nothing.
        """
        options = options or DeleteOptions()
        stored = self.require(target)
        wanted = options.preconditions or {}
        _check_delete_preconditions(target, stored, wanted)
        if options.dry_run:
            return stored
        if options.propagation_policy == "Orphan" or options.orphan_dependents:
            self._disown(stored.uid)
        obj = stored.fresh()
        grace = _grace_period(obj, options.grace_period_seconds) if target.resource.kind == "Pod" else 0
        if grace == 0 and not obj["metadata"].get("finalizers"):
            if target.resource.kind == "Namespace":
                self._empty(target.name)
            if target.resource.kind == "Pod":
                # A watch sees it going before it is gone, as in Kubernetes.
                stored = self._begin_deletion(target.resource, stored, obj, 0)
            return self.store.remove(target.resource, stored)
        return self._begin_deletion(target.resource, stored, obj, grace)

    def _begin_deletion(self, resource: Resource, stored: Stored, obj: Object, grace: int) -> Stored:
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return stored
        is_new = "deletionTimestamp" not in metadata
        metadata["deletionTimestamp"] = timestamp(self.clock() + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if is_new and resource.generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
        return self.store.put(resource, obj)

    def owned_by(self, uid: str) -> list[tuple[Resource, Stored]]:
        """Everything with an owner reference to `uid`."""
        needle = f'"uid":"{uid}"'.encode()
        return [
            (collection.resource, stored)
            for collection in self.store
            for stored in collection
            if needle in stored.raw and stored.uid != uid and _owners(stored.fresh()) & {uid}
        ]

    def _disown(self, uid: str) -> None:
        for resource, stored in self.owned_by(uid):
            obj = stored.fresh()
            references = obj["metadata"]["ownerReferences"]
            obj["metadata"]["ownerReferences"] = [each for each in references if each.get("uid") != uid]
            self.store.put(resource, obj)

    def _empty(self, namespace: str) -> None:
        for collection in self.store:
            for stored in [each for each in collection if each.key[0] == namespace]:
                self.store.remove(collection.resource, stored)

    def _suffix(self) -> str:
        return "".join(self._random.choices(_SUFFIX_LETTERS, k=5))


def _owners(obj: Object) -> set[str]:
    """The uids of an object's owners."""
    return {each.get("uid", "") for each in items(obj["metadata"], "ownerReferences", "metadata")}


def _accept(target: Target, body: Object) -> Object:
    """The request's object in stored form, checked against the path it was sent to. Raises 400."""
    resource = target.resource
    if not isinstance(body, dict):
        raise errors.bad_request(f"the body must be a JSON object, not {type(body).__name__}")
    obj = as_stored(resource, without_nulls(body))
    kind, api_version = obj.pop("kind", resource.kind), obj.pop("apiVersion", resource.api_version)
    if (kind, api_version) != (resource.kind, resource.api_version):
        expected = f"{resource.api_version}, Kind={resource.kind}"
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {expected}): {api_version}, Kind={kind}"
        )
    metadata = read_metadata(obj)
    if resource.namespaced:
        if metadata.setdefault("namespace", target.namespace) != target.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
    else:
        metadata.pop("namespace", None)
    if target.name and metadata.setdefault("name", target.name) != target.name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    return obj


def _named(manifest: Object, name: str) -> Object:
    if not isinstance(manifest, dict):
        raise errors.bad_request(f"the body must be an object, not {type(manifest).__name__}")
    metadata = manifest.get("metadata")
    return {**manifest, "metadata": {**(metadata if isinstance(metadata, dict) else {}), "name": name}}


def _check_preconditions(target: Target, old: Stored, metadata: Object) -> None:
    resource = target.resource
    uid, revision = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    if uid and uid != old.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.uid}"
        raise errors.conflict(resource, target.name, why)
    if revision and revision != str(old.revision):
        raise errors.modified(resource, target.name)
    if not revision and not resource.unconditional_update:
        fault = errors.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(resource, target.name, [fault], kind=resource.plural)


def _keep_server_side(target: Target, before: Object, new: Object) -> None:
    """Put back what this request may not change: system metadata, and the status or everything but the status."""
    metadata = new["metadata"]
    for key in _SYSTEM_METADATA:
        metadata.pop(key, None)
        if key in before["metadata"]:
            metadata[key] = before["metadata"][key]
    metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
    if target.subresource == "status":
        for key in [key for key in new if key not in ("metadata", "status")]:
            del new[key]
        new |= {key: value for key, value in before.items() if key not in ("metadata", "status")}
    elif "status" in target.resource.subresources:
        new.pop("status", None)
        if "status" in before:
            new["status"] = before["status"]


def _check_delete_preconditions(target: Target, stored: Stored, wanted: dict[str, str | None]) -> None:
    uid, revision = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != stored.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored.uid}"
        raise errors.conflict(target.resource, target.name, why)
    if revision and revision != str(stored.revision):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {revision}, "
            f"ResourceVersion in object meta: {stored.revision}"
        )
        raise errors.conflict(target.resource, target.name, why)


def _grace_period(pod: Object, asked: int | None) -> int:
    """Seconds. A pod that is on no node, or has ended, has nothing to stop."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    grace: int = pod["spec"]["terminationGracePeriodSeconds"] if asked is None else asked
    return max(grace, 0)


def _may_vanish(obj: Object) -> bool:
    metadata = obj["metadata"]
    return not metadata.get("finalizers") and metadata.get("deletionGracePeriodSeconds", 0) == 0
