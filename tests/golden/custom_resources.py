"""Scenarios about custom resources: definitions, schemas, versions, status, scale, tables. See `operations.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from tests.golden.operations import APPLY, JSON_PATCH, STRATEGIC, Object, Step, delete, get, patch, post, put, watch

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
#: What an answer says once the names of a definition are accepted, and once it is gone.
_ESTABLISHED, _GONE = "InitialNamesAccepted", '"code":404'


def version(schema: Object | None, name: str = "v1", **more: Any) -> Object:
    body = {} if schema is None else {"schema": {"openAPIV3Schema": schema}}
    return {"name": name, "served": True, "storage": True, **body, **more}


def definition(group: str, *versions: Object, plural: str = "widgets", kind: str = "Widget", **spec: Any) -> Object:
    names = {"plural": plural, "kind": kind}
    whole = {"group": group, "names": names, "scope": "Namespaced", "versions": list(versions), **spec}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": f"{plural}.{group}"}, "spec": whole}


def spec_schema(properties: Object, **more: Any) -> Object:
    """The schema of an object with a spec of these properties, and a status of anything."""
    spec = {"type": "object", **({"properties": properties} if properties else {}), **more}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "properties": {"spec": spec, "status": status}}


def established(group: str, name: str = "v1", plural: str = "widgets", kind: str = "Widget") -> tuple[Step, Step]:
    return (
        Step(method="GET", path=f"{CRDS}/{plural}.{group}", until=_ESTABLISHED),
        Step(method="GET", path=f"/apis/{group}/{name}/{plural}", until=f'"kind":"{kind}List"'),
    )


def widget(group: str, name: str, *, kind: str = "Widget", at: str = "v1", **more: Any) -> Object:
    return {"apiVersion": f"{group}/{at}", "kind": kind, "metadata": {"name": name}, **more}


def _kind(group: str) -> tuple[str, Any]:
    """The path of a group's widgets, and a function that makes one."""
    return f"{group}/v1:widgets", lambda name, **more: widget(group, name, **more)


_INT, _STRING = {"type": "integer"}, {"type": "string"}
_BASIC, _SCHEMA, _STRICT, _SCALE = "basic.golden.test", "schema.golden.test", "strict.golden.test", "scale.golden.test"
_TABLES, _VERSIONS, _PLAIN, _BAD = "tables.golden.test", "versions.golden.test", "plain.golden.test", "bad.golden.test"
_CLUSTER = "cluster.golden.test"
_B, _basic = _kind(_BASIC)
_S, _schema = _kind(_SCHEMA)
_T, _strict = _kind(_STRICT)
_C, _scale = _kind(_SCALE)
_A, _table = _kind(_TABLES)
_P, _plain = _kind(_PLAIN)

_BASIC_SCHEMA = spec_schema({"size": _INT, "color": {**_STRING, "default": "red"}, "tags": {"type": "object"}})
_RICH_SCHEMA = spec_schema(
    {
        "mode": {**_STRING, "enum": ["one", "two"], "default": "one"},
        "count": {**_INT, "minimum": 1, "maximum": 10, "default": 1},
        "small": {**_INT, "format": "int32"},
        "open": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "name": {**_STRING, "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "on": {"type": "boolean"},
        "list": {"type": "array", "maxItems": 2, "minItems": 1, "items": {**_STRING, "maxLength": 3}},
        "set": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "map": {
            "type": "array",
            "items": {"type": "object", "required": ["key"], "properties": {"key": _STRING, "value": _STRING}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
        },
        "labels": {"type": "object", "maxProperties": 2, "additionalProperties": {**_STRING, "maxLength": 3}},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "share": {"x-kubernetes-int-or-string": True},
        "maybe": {**_STRING, "nullable": True},
        "deep": {
            "type": "object",
            "default": {},
            "properties": {"seconds": {**_INT, "default": 30}, "must": _STRING},
        },
        "strict": {"type": "object", "required": ["must"], "properties": {"must": _STRING}},
        "when": {**_STRING, "format": "date-time"},
    },
    required=["mode"],
)


_numbers = count(1)


def _accepts(**spec: Any) -> Step:
    """One request for each question about a schema, each with an object of its own."""
    return post(_S, _schema(f"x{next(_numbers)}", spec=spec))


def _fault(name: str, body: Object | None = None, **changes: Any) -> Step:
    """A definition that must be refused."""
    made = body or definition(_BAD, version(spec_schema({"a": _STRING})), plural=f"{name}s", kind=name.capitalize())
    made["spec"].update(changes)
    return post(CRDS, made)


def _bad_schema(schema: Object) -> Step:
    return _fault("schema", definition(_BAD, version({"type": "object", "properties": {"a": schema}})))


CUSTOM: Mapping[str, Sequence[Step]] = {
    "custom-basic": (
        post(CRDS, definition(_BASIC, version(_BASIC_SCHEMA, subresources={"status": {}}))),
        *established(_BASIC),
        get(f"/apis/{_BASIC}"),
        get(f"/apis/{_BASIC}/v1"),
        post(_B, _basic("a", spec={"size": 1}, status={"x": 1}), rv="metadata.resourceVersion", uid="metadata.uid"),
        post(_B, _basic("a")),
        post(_B, {"apiVersion": f"{_BASIC}/v1", "kind": "Widget", "metadata": {}}),
        post(_B, _basic("Not_A_Name")),
        get(f"{_B}/a"),
        get(f"{_B}/missing"),
        get(_B),
        put(f"{_B}/a", _basic("a", spec={"size": 2})),
        put(f"{_B}/a", {**_basic("a", spec={"size": 2}), "metadata": {"name": "a", "resourceVersion": "$rv"}}),
        put(f"{_B}/a", {**_basic("a", spec={"size": 3}), "metadata": {"name": "a", "resourceVersion": "$rv"}}),
        patch(f"{_B}/a", {"spec": {"size": 4}}),
        patch(f"{_B}/a", {"spec": {"size": 4}}),
        patch(f"{_B}/a", {"metadata": {"labels": {"l": "v"}}}),
        patch(f"{_B}/a", {"status": {"x": 2}}),
        patch(f"{_B}/a/status", {"status": {"x": 3}, "spec": {"size": 9}, "metadata": {"labels": {"m": "w"}}}),
        get(f"{_B}/a/status"),
        patch(f"{_B}/a", [{"op": "replace", "path": "/spec/size", "value": 5}], JSON_PATCH),
        patch(f"{_B}/a", [{"op": "test", "path": "/spec/size", "value": 6}], JSON_PATCH),
        patch(f"{_B}/a", [{"op": "remove", "path": "/spec/missing"}], JSON_PATCH),
        patch(f"{_B}/a", {"spec": {"size": 6}}, STRATEGIC),
        patch(f"{_B}/a", {"spec": {"color": None}}),
        patch(f"{_B}/a", {"spec": {"size": "six"}}),
        patch(f"{_B}/a", {"metadata": {"resourceVersion": "$rv"}, "spec": {"size": 7}}),
        patch(f"{_B}/b", {"spec": {"size": 6}}),
        patch(f"{_B}/c", _basic("c", spec={"size": 6}), APPLY, fieldManager="m"),
        patch(f"{_B}/c", _basic("c", spec={"size": 7}), APPLY, fieldManager="m"),
        get(f"{_B}/a/scale"),
        get(f"{_B}/a/other"),
        get(_B, labelSelector="l=v"),
        get(_B, fieldSelector="metadata.name=c"),
        get(_B, fieldSelector="spec.size=5"),
        get(_B, limit="1"),
        watch(_B, 2),
        watch(_B, 3, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"),
        post(_B, {**_basic("d"), "kind": "Gadget"}),
        post(_B, {**_basic("d"), "apiVersion": f"{_BASIC}/v2"}),
        post(_B, _basic("d", spec="text")),
        post(f"/apis/{_BASIC}/v1/widgets", _basic("d")),
        delete(f"{_B}/a", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        delete(f"{_B}/a"),
        delete(f"{_B}/a"),
        delete(_B),
        get(_B),
        post(_B, {**_basic("f"), "metadata": {"name": "f", "finalizers": ["golden.test/f"]}}),
        delete(f"{_B}/f"),
        patch(f"{_B}/f", {"metadata": {"finalizers": []}}),
        get(f"{_B}/f"),
        post(_B, _basic("last")),
        delete(f"{CRDS}/widgets.{_BASIC}"),
        Step(method="GET", path=f"{CRDS}/widgets.{_BASIC}", until=_GONE),
        Step(method="GET", path=f"/apis/{_BASIC}/v1/widgets", until="404"),
    ),
    "custom-schema": (
        post(CRDS, definition(_SCHEMA, version(_RICH_SCHEMA))),
        *established(_SCHEMA),
        _accepts(),
        post(_S, _schema("empty")),
        _accepts(mode="two", unknown=1, deep={"seconds": 1, "unknown": {"x": 1}}),
        _accepts(mode="three"),
        _accepts(count=0),
        _accepts(count=11),
        _accepts(count=1.5),
        _accepts(count="1"),
        _accepts(count=2.0),
        _accepts(small=3_000_000_000),
        _accepts(open=0),
        _accepts(open=0.5),
        _accepts(name="a"),
        _accepts(name="abcde"),
        _accepts(name="A1"),
        _accepts(on="yes"),
        _accepts(list=[]),
        _accepts(list=["a", "b", "c"]),
        _accepts(list=["abcd"]),
        _accepts(list="a"),
        _accepts(set=["a", "b"]),
        _accepts(set=["a", "a"]),
        _accepts(map=[{"key": "a", "value": "1", "other": "x"}]),
        _accepts(map=[{"key": "a"}, {"key": "a"}]),
        _accepts(map=[{"value": "a"}]),
        _accepts(labels={"a": "1", "b": "2"}),
        _accepts(labels={"a": "1", "b": "2", "c": "3"}),
        _accepts(labels={"a": "1234"}),
        _accepts(labels={"a": 1}),
        _accepts(any={"whatever": [1, {"x": None}]}),
        _accepts(any="text"),
        _accepts(share=1),
        _accepts(share="10%"),
        _accepts(share=1.5),
        _accepts(share=True),
        _accepts(maybe=None),
        _accepts(name=None),
        _accepts(mode=None),
        _accepts(deep=None),
        _accepts(deep={"seconds": None}),
        _accepts(strict={}),
        _accepts(strict={"must": ""}),
        _accepts(when="2026-11-23T00:00:00Z"),
        _accepts(when="yesterday"),
        _accepts(count=0, name="A1"),
        post(_S, _schema("list", spec=[])),
        post(_S, {**_schema("odd"), "spec": {}, "status": {"free": {"a": 1}}, "more": {"x": 1}}),
        post(_S, {**_schema("m"), "metadata": {"name": "m", "labels": {"a": 1}}}),
        post(_S, {**_schema("m"), "metadata": {"name": "m", "labels": {"a": "not valid!"}}}),
        post(_S, {**_schema("m"), "metadata": {"name": "m", "unknown": "x"}, "spec": {}}),
        patch(f"{_S}/m", {"spec": {"list": ["a"], "map": [{"key": "a", "value": "1"}]}}),
        patch(f"{_S}/m", {"spec": {"map": [{"key": "b", "value": "2"}]}}),
        patch(
            f"{_S}/m", _schema("m", spec={"map": [{"key": "c", "value": "3"}], "list": ["a"]}), APPLY, fieldManager="g"
        ),
        patch(f"{_S}/m", [{"op": "add", "path": "/spec/count", "value": 99}], JSON_PATCH),
        delete(f"{CRDS}/widgets.{_SCHEMA}"),
    ),
    "custom-strict": (
        post(CRDS, definition(_STRICT, version(_BASIC_SCHEMA))),
        *established(_STRICT),
        Step(
            method="POST",
            path=_T,
            body=_strict("a", spec={"sise": 1, "tags": {"x": 1}}),
            query={"fieldValidation": "Strict"},
        ),
        Step(
            method="POST",
            path=_T,
            body=_strict("a", spec={"sise": 1}, extra=1),
            query={"fieldValidation": "Warn"},
            warns=True,
        ),
        Step(method="POST", path=_T, body=_strict("b", spec={"sise": 1}), warns=True),
        Step(
            method="POST",
            path=_T,
            body=_strict("c", spec={"sise": 1}),
            query={"fieldValidation": "Ignore"},
            warns=True,
        ),
        Step(method="POST", path=_T, body=_strict("d"), query={"fieldValidation": "Sometimes"}),
        patch(f"{_T}/a", {"spec": {"sise": 2}}, fieldValidation="Strict"),
        patch(f"{_T}/a", {"spec": {"size": 2}}, fieldValidation="Strict"),
        patch(f"{_T}/a", _strict("a", spec={"sise": 2}), APPLY, fieldValidation="Strict", fieldManager="m"),
        patch(f"{_T}/a", [{"op": "add", "path": "/spec/sise", "value": 1}], JSON_PATCH, fieldValidation="Strict"),
        Step(
            method="PATCH",
            path=f"{_T}/a",
            body={"spec": {"sise": 2}},
            media_type="application/merge-patch+json",
            warns=True,
        ),
        delete(f"{CRDS}/widgets.{_STRICT}"),
    ),
    "custom-scale": (
        post(
            CRDS,
            definition(
                _SCALE,
                version(
                    spec_schema({"replicas": {**_INT, "minimum": 0, "maximum": 5}}),
                    subresources={
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                ),
            ),
        ),
        *established(_SCALE),
        get(f"/apis/{_SCALE}/v1"),
        post(_C, _scale("s", spec={"replicas": 2})),
        get(f"{_C}/s/scale"),
        patch(f"{_C}/s/status", {"status": {"replicas": 1, "selector": "app=a"}}),
        get(f"{_C}/s/scale"),
        patch(f"{_C}/s/scale", {"spec": {"replicas": 3}}),
        put(
            f"{_C}/s/scale",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "s", "namespace": "custom-scale"},
                "spec": {"replicas": 4},
            },
        ),
        get(f"{_C}/s"),
        patch(f"{_C}/s/scale", {"spec": {"replicas": -1}}),
        patch(f"{_C}/s/scale", {"spec": {"replicas": 6}}),
        patch(f"{_C}/s/scale", {"spec": {"replicas": 0}}),
        get(f"{_C}/missing/scale"),
        post(_C, _scale("unset")),
        get(f"{_C}/unset/scale"),
        delete(f"{CRDS}/widgets.{_SCALE}"),
    ),
    "custom-tables": (
        post(
            CRDS,
            definition(
                _TABLES,
                version(
                    spec_schema({"size": _INT, "color": _STRING, "list": {"type": "array", "items": _STRING}}),
                    additionalPrinterColumns=[
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how big"},
                        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
                        {
                            "name": "Ready",
                            "type": "string",
                            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                        },
                        {"name": "First", "type": "string", "jsonPath": ".spec.list[0]"},
                        {"name": "All", "type": "string", "jsonPath": ".spec.list"},
                        {"name": "Every", "type": "string", "jsonPath": ".spec.list[*]"},
                        {"name": "On", "type": "boolean", "jsonPath": ".status.on"},
                        {"name": "Share", "type": "number", "jsonPath": ".status.share", "format": "double"},
                        {"name": "Text", "type": "integer", "jsonPath": ".spec.color"},
                    ],
                ),
            ),
        ),
        *established(_TABLES),
        post(
            _A,
            _table(
                "a",
                spec={"size": 3, "color": "red", "list": ["x", "y"]},
                status={"conditions": [{"type": "Ready", "status": "True"}], "on": True, "share": 0.5},
            ),
        ),
        post(_A, _table("b")),
        Step(method="GET", path=_A, accept=_TABLE),
        Step(method="GET", path=f"{_A}/a", accept=_TABLE),
        delete(f"{CRDS}/widgets.{_TABLES}"),
    ),
    "custom-versions": (
        post(
            CRDS,
            definition(
                _VERSIONS,
                version(spec_schema({"a": _STRING})),
                version(spec_schema({"a": _STRING, "b": {**_STRING, "default": "new"}}), name="v1beta1", storage=False),
                version(spec_schema({"a": _STRING}), name="v1alpha1", storage=False, served=False),
                names={
                    "plural": "widgets",
                    "kind": "Widget",
                    "shortNames": ["wg"],
                    "categories": ["all"],
                    "singular": "wid",
                },
            ),
        ),
        *established(_VERSIONS),
        get(f"/apis/{_VERSIONS}"),
        get(f"/apis/{_VERSIONS}/v1beta1"),
        post(f"{_VERSIONS}/v1:widgets", widget(_VERSIONS, "a", spec={"a": "x", "b": "y"})),
        get(f"{_VERSIONS}/v1beta1:widgets"),
        post(f"{_VERSIONS}/v1beta1:widgets", widget(_VERSIONS, "b", at="v1beta1", spec={"a": "x"})),
        get(f"{_VERSIONS}/v1:widgets/b"),
        get(f"/apis/{_VERSIONS}/v1alpha1/widgets"),
        watch(f"{_VERSIONS}/v1beta1:widgets", 2),
        delete(f"{CRDS}/widgets.{_VERSIONS}"),
    ),
    "custom-plain": (
        post(CRDS, definition(_PLAIN, version({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))),
        *established(_PLAIN),
        post(_P, _plain("a", spec={"x": [1, None]}, status={"y": 1}, data="text")),
        patch(f"{_P}/a", {"status": {"y": 2}}),
        get(f"{_P}/a/status"),
        delete(f"{CRDS}/widgets.{_PLAIN}"),
    ),
    "custom-cluster": (
        post(CRDS, definition(_CLUSTER, version(spec_schema({"a": _STRING})), scope="Cluster")),
        *established(_CLUSTER),
        post(f"/apis/{_CLUSTER}/v1/widgets", widget(_CLUSTER, "a", spec={"a": "b"})),
        get(f"{_CLUSTER}/v1:widgets/a"),
        get(f"/apis/{_CLUSTER}/v1/widgets/a"),
        get(f"/apis/{_CLUSTER}/v1"),
        # An update of a definition: more fields, then what may not change.
        patch(
            f"{CRDS}/widgets.{_CLUSTER}",
            {"spec": {"versions": [version(spec_schema({"a": _STRING, "b": {**_INT, "default": 7}}))]}},
        ),
        patch(f"{CRDS}/widgets.{_CLUSTER}", {"spec": {"scope": "Namespaced"}}),
        patch(f"{CRDS}/widgets.{_CLUSTER}", {"spec": {"group": "other.golden.test"}}),
        patch(f"{CRDS}/widgets.{_CLUSTER}", {"spec": {"names": {"plural": "others"}}}),
        patch(f"{CRDS}/widgets.{_CLUSTER}", {"spec": {"versions": [version(spec_schema({}), name="v2")]}}),
        patch(f"{CRDS}/widgets.{_CLUSTER}", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC),
        get(f"{CRDS}/widgets.{_CLUSTER}"),
        get(f"{CRDS}/missing.{_CLUSTER}"),
        delete(f"{CRDS}/widgets.{_CLUSTER}"),
    ),
    "custom-definitions": (
        _fault("name", {**definition(_BAD, version(spec_schema({}))), "metadata": {"name": "wrong"}}),
        _fault("scope", scope="Everywhere"),
        _fault("scope", scope=""),
        _fault("version", versions=[]),
        _fault("version", versions=[version(None)]),
        _fault("version", versions=[version(spec_schema({}), storage=False)]),
        _fault("version", versions=[version(spec_schema({})), version(spec_schema({}), name="v2")]),
        _fault("version", versions=[version(spec_schema({})), version(spec_schema({}), storage=False)]),
        _fault("version", versions=[version(spec_schema({}), name="V_1")]),
        _fault("group", definition("", version(spec_schema({})))),
        _fault("group", definition("nodots", version(spec_schema({})))),
        _fault("names", names={"plural": "namess", "kind": ""}),
        _fault("names", names={"plural": "namess", "kind": "not a kind"}),
        _fault("names", names={"plural": "", "kind": "Names"}),
        _fault("names", names={"plural": "namess", "kind": "Names", "shortNames": ["Not Short"]}),
        _fault("names", names={"plural": "namess", "kind": "Names", "listKind": "Names"}),
        _fault("root", versions=[version({"type": "string"})]),
        _fault("root", versions=[version({"properties": {}})]),
        _bad_schema({"description": "no type"}),
        _bad_schema({"type": "text"}),
        _bad_schema({"type": "array"}),
        _bad_schema({"type": "object", "properties": {"b": _STRING}, "additionalProperties": _STRING}),
        _bad_schema({**_STRING, "default": 1}),
        _bad_schema({**_STRING, "pattern": "["}),
        _bad_schema({**_STRING, "$ref": "#/definitions/a"}),
        _bad_schema({"type": "array", "items": _STRING, "uniqueItems": True}),
        _bad_schema({"type": "array", "items": _STRING, "x-kubernetes-list-type": "map"}),
        _fault("scale", versions=[version(spec_schema({}), subresources={"scale": {"specReplicasPath": "spec.a"}})]),
        _fault(
            "scale",
            versions=[
                version(
                    spec_schema({}),
                    subresources={"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": ".status.b"}},
                )
            ],
        ),
        _fault("columns", versions=[version(spec_schema({}), additionalPrinterColumns=[{"name": "A"}])]),
        _fault(
            "columns",
            versions=[
                version(
                    spec_schema({}),
                    additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": "spec.a"}],
                )
            ],
        ),
        # Names that somebody has already: accepted, and never served.
        post(CRDS, definition(_BAD, version(spec_schema({})), plural="firsts", kind="First")),
        *established(_BAD, plural="firsts", kind="First"),
        post(CRDS, definition(_BAD, version(spec_schema({})), plural="seconds", kind="First")),
        Step(method="GET", path=f"{CRDS}/seconds.{_BAD}", until="ListKindConflict"),
        get(f"/apis/{_BAD}/v1/seconds"),
        delete(f"{CRDS}/seconds.{_BAD}"),
        delete(f"{CRDS}/firsts.{_BAD}"),
    ),
}
