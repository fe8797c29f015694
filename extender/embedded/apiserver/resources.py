"""What a served resource is: one row of the resource table, and how rows are found. The rows are in `table.py`.

A row is what the Kubernetes discovery documents say about a resource, plus the few switches in which kinds differ when
they are written (generation, unconditional update) and the fields by which they can be selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from extender.embedded.apiserver.cells import Column

#: The names of fields on the way to one.
Path = tuple[str, ...]

#: Field selector label -> path of the field in the object.
FieldPaths = Mapping[str, Path]

_METADATA_FIELDS: FieldPaths = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a custom kind has what its scale sub-resource shows. `selector` is () if it has none."""

    replicas: Path
    status_replicas: Path
    selector: Path = ()


@dataclass(frozen=True, slots=True, eq=False)
class CustomKind:
    """What a CustomResourceDefinition says about a kind besides its row; see `custom/`."""

    #: The OpenAPI schema of the whole object.
    schema: Mapping[str, Any]
    columns: tuple[Column, ...]
    singular: str
    list_kind: str
    categories: tuple[str, ...] = ()
    storage_hash: str = ""
    scale: ScalePaths | None = None
    #: The definition is being deleted: no object can be created any more.
    terminating: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One served resource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    #: Served below NAME/, with the kind that each takes.
    subresources: Mapping[str, str] = field(default_factory=dict)
    short_names: tuple[str, ...] = ()
    #: Selectable besides metadata.name and metadata.namespace.
    selectable: FieldPaths = field(default_factory=dict)
    #: metadata.generation counts changes of the spec.
    generation: bool = False
    #: An update without a resourceVersion overwrites whatever is there.
    unconditional_update: bool = True
    #: Another row whose objects these are, under other field names: {stored name: name here}.
    stored_as: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    #: Nothing is stored: creating one is asking a question, and the answer is the object back.
    is_review: bool = False
    #: `kubectl get all` shows it.
    in_all: bool = False
    #: Set if a definition in the cluster makes this row.
    custom: CustomKind | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def id(self) -> str:
        """PLURAL.GROUP, as kubectl names it; plain PLURAL in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom else f"{self.kind}List"

    @property
    def singular(self) -> str:
        return self.custom.singular if self.custom else self.kind.lower()

    @property
    def collection(self) -> str:
        """The id of the rows whose objects these are: all versions of a custom kind have one."""
        return self.stored_as or self.id

    @property
    def fields(self) -> FieldPaths:
        return {**_METADATA_FIELDS, **self.selectable}


@dataclass(frozen=True, slots=True)
class Target:
    """What a request path names. `namespace` is "" for all namespaces; `name` is "" for the collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class ResourceTable:
    """The rows, found by path, by kind or by any name that kubectl would take. Definitions add rows and remove them."""

    def __init__(self, rows: tuple[Resource, ...]) -> None:
        self._set(rows)

    def replace(self, old: tuple[Resource, ...], new: tuple[Resource, ...]) -> None:
        """Take the rows `old` away and add the rows `new` at the end."""
        self._set((*(row for row in self._rows if row not in old), *new))

    def _set(self, rows: tuple[Resource, ...]) -> None:
        self._rows = rows
        self._by_path = {(row.group, row.version, row.plural): row for row in rows}
        self._by_kind = {(row.api_version, row.kind): row for row in rows}

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._rows)

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        return self._by_kind.get((api_version, kind))

    def named(self, name: str) -> Resource:
        """The row called `name`: plural, PLURAL.GROUP or a short name; the first row wins. Raises KeyError."""
        for row in self._rows:
            if name in (row.id, row.plural, row.singular, *row.short_names):
                return row
        raise KeyError(f"no resource is called {name!r}; there are {', '.join(row.id for row in self._rows)}")

    def resolve(self, path: str) -> Target | None:
        """What /api/v1/... or /apis/GROUP/VERSION/... names; None if there is no such resource."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 3:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) >= 4:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        # `namespaces/x/status` is the namespace's own subresource, `namespaces/x/pods` what is in it.
        if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] != "status":
            namespace, rest = rest[1], rest[2:]
        resource = self._by_path.get((group, version, rest[0]))
        if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
            return None
        target = Target(resource, namespace, *rest[1:])
        # A custom kind may have any sub-resource one day; that it lacks one says nothing about the path.
        if target.subresource and target.subresource not in resource.subresources and not resource.custom:
            return None
        return target
