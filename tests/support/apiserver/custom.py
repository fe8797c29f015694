"""Definitions of custom resources, and objects of them."""

from __future__ import annotations

from typing import Any

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = dict[str, Any]


def version(name: str = "v1", *, storage: bool = True, spec: Object | None = None, **more: Any) -> Object:
    """A version whose spec has these properties, and whose status is anything."""
    fields = {"type": "object", **({"properties": spec} if spec else {"x-kubernetes-preserve-unknown-fields": True})}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": fields, "status": status}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(group: str, *versions: Object, kind: str = "Widget", scope: str = "Namespaced", **names: Any) -> Object:
    """The definition of KINDs of a group, with one version called v1 unless others are given."""
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": list(versions or (version(),)),
        },
    }


def widget(group: str, name: str, *, at: str = "v1", kind: str = "Widget", **more: Any) -> Object:
    return {"apiVersion": f"{group}/{at}", "kind": kind, "metadata": {"name": name, **more.pop("metadata", {})}, **more}
