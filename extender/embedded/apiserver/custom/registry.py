"""From definitions to what is served: rows of the resource table, collections of the store, conditions.

    created / changed --> names free? --no--> NamesAccepted False, not served
                              \\--yes--> a row for each served version, a collection --> Established
    deleted --> Terminating: no creates --> its objects are deleted --> the last one gone: rows, collection and
                definition go

The real server does these steps in controllers, a moment later; here they are part of the write.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable

from extender.embedded.apiserver.conditions import set_condition
from extender.embedded.apiserver.custom.columns import columns
from extender.embedded.apiserver.custom.paths import names_of
from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.resources import CustomKind, Resource, ResourceTable, ScalePaths
from extender.embedded.apiserver.store import Store, Stored
from extender.embedded.apiserver.table import CUSTOM_RESOURCE_DEFINITIONS

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_TERMINATING_TEXT = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
_ACCEPTED = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_SUBRESOURCES = {"status": None, "scale": "Scale"}


class Registry:
    """Keeps table and store as the definitions say. `now` gives RFC 3339 times."""

    def __init__(self, table: ResourceTable, store: Store, now: Callable[[], str]) -> None:
        self._table = table
        self._store = store
        self._now = now

    def written(self, stored: Stored) -> None:
        """A definition was created or changed: serve what it says now, and say so in its status."""
        definition = stored.fresh()
        if "deletionTimestamp" in definition["metadata"]:
            return
        conflict = self._conflict(definition)
        if conflict is None:
            self._serve(definition)
        status = self._status(definition, conflict)
        if status != definition["status"]:
            self._store.put(CUSTOM_RESOURCE_DEFINITIONS, {**definition, "status": status})

    def terminate(self, stored: Stored) -> Stored:
        """Begin to delete a definition: no object can be created from here on. The caller deletes those there are."""
        definition = stored.fresh()
        metadata = definition["metadata"]
        if "deletionTimestamp" in metadata:
            return stored
        metadata["deletionTimestamp"] = self._now()
        metadata["finalizers"] = [*metadata.get("finalizers", []), FINALIZER]
        more = {"reason": "InstanceDeletionPending", "message": _TERMINATING_TEXT}
        set_condition(definition["status"], "Terminating", "True", now=self._now(), **more)
        if self._rows(definition):
            self._serve(definition)
        return self._store.put(CUSTOM_RESOURCE_DEFINITIONS, definition)

    def finish(self, name: str) -> None:
        """Remove the definition called `name` if it is being deleted and none of its objects is left."""
        stored = self._store.collection(CUSTOM_RESOURCE_DEFINITIONS).get(("", name))
        if stored is None:
            return
        definition = stored.fresh()
        rows = self._rows(definition)
        others = [each for each in definition["metadata"].get("finalizers", []) if each != FINALIZER]
        if "deletionTimestamp" not in definition["metadata"] or others:
            return
        if rows and len(self._store.collection(rows[0])):
            return
        self._store.remove(CUSTOM_RESOURCE_DEFINITIONS, stored)
        if rows:
            self._table.replace(rows, ())
            self._store.drop(name)

    def row_of(self, name: str) -> Resource | None:
        """A row of the definition called `name`; None if it is not served."""
        return next((row for row in self._table if row.custom and row.id == name), None)

    def _rows(self, definition: Object) -> tuple[Resource, ...]:
        name = definition["metadata"]["name"]
        return tuple(row for row in self._table if row.custom and row.id == name)

    def _serve(self, definition: Object) -> None:
        rows = tuple(_row(definition, version) for version in _in_order(definition))
        storage = next(each["name"] for each in definition["spec"]["versions"] if each["storage"])
        self._table.replace(self._rows(definition), tuple(row for row, served in rows if served))
        self._store.serve(next(row for row, _ in rows if row.version == storage))

    def _conflict(self, definition: Object) -> tuple[str, str] | None:
        """(reason, message) if somebody else in the group has one of the names already."""
        spec, name = definition["spec"], definition["metadata"]["name"]
        names = spec["names"]
        others = [row for row in self._table if row.group == spec["group"] and row.id != name]
        if any(names["listKind"] in (row.kind, row.list_kind) for row in others):
            return "ListKindConflict", f'"{names["listKind"]}" is already in use'
        if any(names["kind"] in (row.kind, row.list_kind) for row in others):
            return "KindConflict", f'"{names["kind"]}" is already in use'
        taken = {each for row in others for each in (row.plural, row.singular, *row.short_names)}
        for reason, given in (
            ("PluralConflict", [names["plural"]]),
            ("ShortNamesConflict", names.get("shortNames", [])),
            ("SingularConflict", [names["singular"]]),
        ):
            for each in given:
                if each in taken:
                    return reason, f'"{each}" is already in use'
        return None

    def _status(self, definition: Object, conflict: tuple[str, str] | None) -> Object:
        status, now = {**definition["status"]}, self._now()
        names, spec = definition["spec"]["names"], definition["spec"]
        storage = next(each["name"] for each in spec["versions"] if each["storage"])
        status["storedVersions"] = list(dict.fromkeys([*status["storedVersions"], storage]))
        if conflict:
            reason, message = conflict
            status["acceptedNames"] = {"plural": names["plural"], "kind": ""}
            set_condition(status, "NamesAccepted", "False", now=now, reason=reason, message=message)
            more = {"reason": "NotAccepted", "message": "not all names are accepted"}
            set_condition(status, "Established", "False", now=now, **more)
            return status
        status["acceptedNames"] = {key: names[key] for key in _ACCEPTED if key in names}
        set_condition(status, "NamesAccepted", "True", now=now, reason="NoConflicts", message="no conflicts found")
        more = {"reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}
        set_condition(status, "Established", "True", now=now, **more)
        return status


def _in_order(definition: Object) -> list[Object]:
    """The versions, the most mature first: v2, v1, v1beta1, v1alpha1, as discovery shows them."""
    return sorted(definition["spec"]["versions"], key=lambda each: _maturity(each["name"]), reverse=True)


def _maturity(name: str) -> tuple[int, int, int]:
    for rank, word in ((2, ""), (1, "beta"), (0, "alpha")):
        major, found, minor = name[1:].partition(word) if word else (name[1:], "", "0")
        if name.startswith("v") and major.isdigit() and (minor or "0").isdigit() and bool(found) == bool(word):
            return rank, int(major), int(minor or "0")
    return -1, 0, 0


def _row(definition: Object, version: Object) -> tuple[Resource, bool]:
    """The row of one version, and whether it is served."""
    spec = definition["spec"]
    names, parts = spec["names"], version.get("subresources", {})
    storage = next(each["name"] for each in spec["versions"] if each["storage"])
    kind = f"{spec['group']}/{storage}/{names['kind']}"
    scale = parts.get("scale")
    custom = CustomKind(
        schema=version["schema"]["openAPIV3Schema"],
        columns=columns(version.get("additionalPrinterColumns", [])),
        singular=names["singular"],
        list_kind=names["listKind"],
        categories=tuple(names.get("categories", ())),
        storage_hash=b64encode(hashlib.sha256(kind.encode()).digest()[:8]).decode(),
        scale=None if scale is None else _scale_paths(scale),
        terminating="deletionTimestamp" in definition["metadata"],
    )
    selectable = [names_of(each["jsonPath"]) for each in version.get("selectableFields", [])]
    row = Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        subresources={name: kind or names["kind"] for name, kind in _SUBRESOURCES.items() if name in parts},
        short_names=tuple(names.get("shortNames", ())),
        selectable={".".join(path): path for path in selectable},
        generation=True,
        unconditional_update=False,
        custom=custom,
    )
    return row, version["served"]


def _scale_paths(scale: Object) -> ScalePaths:
    selector = scale.get("labelSelectorPath")
    return ScalePaths(
        names_of(scale["specReplicasPath"]),
        names_of(scale["statusReplicasPath"]),
        names_of(selector) if selector else (),
    )
