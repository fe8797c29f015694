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
from extender.embedded.apiserver.custom.objects import UnknownFields, admit, apply_merge
from extender.embedded.apiserver.custom.registry import Registry
from extender.embedded.apiserver.custom.schema import prune
from extender.embedded.apiserver.defaults import set_creation_defaults, set_defaults
from extender.embedded.apiserver.objects import Object, items, section, text, timestamp, without_nulls
from extender.embedded.apiserver.patches import STRATEGIC, patch_with
from extender.embedded.apiserver.policies import check_delete
from extender.embedded.apiserver.resources import Resource, ResourceTable, Target
from extender.embedded.apiserver.store import Store, Stored
from extender.embedded.apiserver.table import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    TABLE,
)
from extender.embedded.apiserver.validation import read_metadata, validate, validate_update
from extender.embedded.apiserver.views import as_shown, as_stored

#: The finalizer of an object that goes after all that it owns.
FOREGROUND = "foregroundDeletion"
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: Set by the server; whatever a client sends for them is replaced by what is stored.
_SYSTEM_METADATA = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The part of DeleteOptions that is honoured. Seconds; None means the object's own grace period."""

    grace_period_seconds: int | None = None
    preconditions: dict[str, str | None] | None = None
    #: Orphan: what the object owns stays. Foreground: the object goes last. Everything else means Background.
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
        self._definitions = Registry(self.table, self.store, self.now)
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

    def create(
        self, target: Target, body: Object, unknown: UnknownFields | None = None, *, dry_run: bool = False
    ) -> Stored:
        """Raises 400, 403, 405, 409 AlreadyExists or 422. A dry run goes as far as here, and writes nothing."""
        resource = target.resource
        if resource.custom and resource.custom.terminating:
            raise errors.method_not_allowed("create not allowed while custom resource definition is terminating")
        obj = _accept(target, body)
        metadata = obj["metadata"]
        if metadata.pop("resourceVersion", ""):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"][:58] + self._suffix()
        for key in _SYSTEM_METADATA:
            metadata.pop(key, None)
        if resource.custom:
            admit(resource, resource.custom, obj, unknown or UnknownFields())
            metadata = obj["metadata"]
        set_defaults(resource, obj)
        set_creation_defaults(resource, obj, now=self.now())
        validate(resource, obj)
        if resource is PODS:
            admit_pod(self.store, obj)
        if self.store.collection(resource).get((target.namespace, metadata["name"])) is not None:
            raise errors.already_exists(resource, metadata["name"])
        # A dry run takes no number of the random stream: the UIDs of what is created do not depend on it.
        metadata["uid"] = str(uuid.UUID(int=0 if dry_run else self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.now()
        if resource.generation:
            metadata["generation"] = 1
        return self.store.unwritten(resource, obj) if dry_run else self._put(resource, obj)

    def update(self, target: Target, body: Object, unknown: UnknownFields | None = None) -> Stored:
        """Replace an object, or with the subresource `status` only its status. Raises 400, 404, 409 or 422."""
        obj = _accept(target, body)
        return self._replace(target, self.require(target), obj, unknown)

    def patch(self, target: Target, patch: Any, media_type: str, unknown: UnknownFields | None = None) -> Stored:
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
        return self._replace(target, old, _accept(target, changed), unknown, in_patch=True)

    def apply(self, target: Target, manifest: Object, unknown: UnknownFields | None = None) -> tuple[Stored, bool]:
        """Server-side apply as a merge: lists of named things are merged by their key, what the manifest leaves out
        stays. Nobody owns fields here, so nothing conflicts. Returns the object, and whether it is new. Raises as
        `create` and `patch` do.
        """
        custom = target.resource.custom
        old = self.store.collection(target.resource).get((target.namespace, target.name))
        if old is not None and custom:
            merged = apply_merge(custom.schema, old.fresh(), _named(manifest, target.name))
            return self._replace(target, old, _accept(target, merged), unknown), False
        if old is not None:
            return self.patch(target, manifest, STRATEGIC), False
        if target.subresource:
            raise errors.not_found(target.resource, target.name)
        return self.create(Target(target.resource, target.namespace), _named(manifest, target.name), unknown), True

    def _replace(
        self, target: Target, old: Stored, new: Object, unknown: UnknownFields | None = None, *, in_patch: bool = False
    ) -> Stored:
        resource, before = target.resource, old.fresh()
        _check_preconditions(target, old, new["metadata"])
        _keep_server_side(target, before, new)
        if resource is PODS:
            keep_priority(new, before)
        if resource.custom:
            admit(resource, resource.custom, new, unknown or UnknownFields(), in_patch=in_patch)
        set_defaults(resource, new)
        validate(resource, new)
        validate_update(resource, new, before)
        if new == before:
            return old
        if resource.generation and _counted(resource, new) != _counted(resource, before):
            new["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        if "deletionTimestamp" in new["metadata"] and _may_vanish(new):
            return self._remove(resource, self.store.put(resource, new))
        return self._put(resource, new)

    def _put(self, resource: Resource, obj: Object) -> Stored:
        storage = self.store.collection(resource).resource
        if resource.custom and storage.custom and storage is not resource:
            prune(storage.custom.schema, obj)
        stored = self.store.put(resource, obj)
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            self._definitions.written(stored)
        return stored

    def _remove(self, resource: Resource, stored: Stored) -> Stored:
        gone = self.store.remove(resource, stored)
        if resource.custom:
            self._definitions.finish(resource.id)
        return gone

    def delete(self, target: Target, options: DeleteOptions | None = None, *, user: str = "") -> Stored:
        """Delete at once, or begin to: a pod on a node stays until its kubelet has stopped it (or grace is 0), an
        object with finalizers until they are gone. Returns its last state. Raises 404, 409 for preconditions, or 422
        if a policy refuses it to `user`. A dry run raises the same, and changes nothing.
        """
        options = options or DeleteOptions()
        stored = self.require(target)
        wanted = options.preconditions or {}
        _check_delete_preconditions(target, stored, wanted)
        check_delete(self.store, target.resource, stored, user)
        if options.dry_run:
            return stored
        if target.resource is CUSTOM_RESOURCE_DEFINITIONS:
            return self._delete_definition(stored)
        if options.propagation_policy == "Orphan" or options.orphan_dependents:
            self._disown(stored.uid)
        obj = self.require(target).fresh()
        grace = _grace_period(obj, options.grace_period_seconds) if target.resource is PODS else 0
        if options.propagation_policy == "Foreground" and FOREGROUND not in obj["metadata"].get("finalizers", []):
            obj["metadata"]["finalizers"] = [*obj["metadata"].get("finalizers", []), FOREGROUND]
        if grace == 0 and not obj["metadata"].get("finalizers"):
            if target.resource is NAMESPACES:
                self._empty(target.name)
            if target.resource is PODS:
                # A watch sees it going before it is gone, as in Kubernetes.
                stored = self._begin_deletion(target.resource, stored, obj, 0)
            return self._remove(target.resource, stored)
        return self._begin_deletion(target.resource, stored, obj, grace)

    def _delete_definition(self, stored: Stored) -> Stored:
        """Delete all objects of a definition, and the definition once the last of them is gone."""
        name, row = stored.key[1], self._definitions.row_of(stored.key[1])
        going = self._definitions.terminate(stored)
        for each in list(self.store.collection(row)) if row else ():
            self.delete(Target(row, *each.key)) if row else None
        self._definitions.finish(name)
        return going

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
            kept = [each for each in obj["metadata"].pop("ownerReferences") if each.get("uid") != uid]
            if kept:
                obj["metadata"]["ownerReferences"] = kept
            self.store.put(resource, obj)

    def _empty(self, namespace: str) -> None:
        for collection in self.store:
            for stored in [each for each in collection if each.key[0] == namespace]:
                self._remove(collection.resource, stored)

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
    # In a custom object null can be a value; its schema decides.
    obj = dict(body) if resource.custom else as_stored(resource, without_nulls(body))
    kind, api_version = obj.pop("kind", resource.kind), obj.pop("apiVersion", resource.api_version)
    if resource.custom:
        _check_custom_kind(resource, kind, api_version, obj)
    elif (kind, api_version) != (resource.kind, resource.api_version):
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


def _check_custom_kind(resource: Resource, kind: str, api_version: str, obj: Object) -> None:
    if api_version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        fault = errors.invalid_value("kind", kind, f"must be {resource.kind}")
        raise errors.invalid(resource, text(section(obj, "metadata"), "name", "metadata"), [fault], kind=kind)


def _counted(resource: Resource, obj: Object) -> Object:
    """The part of an object whose changes metadata.generation counts."""
    if not resource.custom:
        return {"spec": obj.get("spec")}
    apart = {"metadata", "status"} if "status" in resource.subresources else {"metadata"}
    return {key: value for key, value in obj.items() if key not in apart}


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
    if target.subresource == "status" and target.resource.custom:
        new["metadata"] = before["metadata"]
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
