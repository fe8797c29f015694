"""The scale subresource: how many replicas a workload is to have, whatever its kind, as autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from extender.embedded.apiserver import errors
from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.objects import Object, section
from extender.embedded.apiserver.patches import MERGE, patch_with
from extender.embedded.apiserver.resources import Target

_SHOWN_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read_scale(cluster: Cluster, target: Target) -> Object:
    """The Scale of a workload. Raises 404."""
    obj = cluster.require(target).fresh()
    spec, status = obj.get("spec", {}), obj.get("status", {})
    seen: Object = {"replicas": status.get("replicas", 0)}
    if selector := _selector_text(spec.get("selector")):
        seen["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in _SHOWN_METADATA if key in obj["metadata"]},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": seen,
    }


def update_scale(cluster: Cluster, target: Target, body: Any) -> Object:
    """Set spec.replicas from a Scale. Raises 400, 404, 409 or 422."""
    if not isinstance(body, dict) or body.get("kind", "Scale") != "Scale":
        raise errors.bad_request("not a Scale object")
    replicas = section(body, "spec").get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request(f"spec.replicas must be an integer, not {type(replicas).__name__}")
    if replicas < 0:
        fault = errors.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid(target.resource, target.name, [fault], kind="Scale", group="autoscaling")
    metadata = section(body, "metadata")
    preconditions = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
    whole = Target(target.resource, target.namespace, target.name)
    cluster.patch(whole, {"metadata": preconditions, "spec": {"replicas": replicas}}, MERGE)
    return read_scale(cluster, target)


def patch_scale(cluster: Cluster, target: Target, patch: Any, media_type: str) -> Object:
    """As `update_scale`, with any of the three kinds of patch."""
    apply = patch_with(media_type)
    if apply is None:
        raise errors.bad_request(f"no patch has the type {media_type}")
    return update_scale(cluster, target, apply(read_scale(cluster, target), patch))


def _selector_text(selector: Any) -> str:
    """A label selector in the form of the query parameter. A replication controller's is a plain map."""
    if not isinstance(selector, dict):
        return ""
    labels = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    for each in selector.get("matchExpressions", []):
        key, operator, values = each.get("key"), each.get("operator"), ",".join(sorted(each.get("values", [])))
        shown = {"Exists": f"{key}", "DoesNotExist": f"!{key}"}
        terms.append(shown.get(operator, f"{key} {str(operator).lower()} ({values})"))
    return ",".join(terms)
