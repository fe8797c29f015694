"""The scale subresource: how many replicas a workload is to have, whatever its kind, as autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from extender.embedded.apiserver import errors
from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.objects import Object, section
from extender.embedded.apiserver.patches import MERGE, patch_with
from extender.embedded.apiserver.resources import Path, ScalePaths, Target

_SHOWN_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read_scale(cluster: Cluster, target: Target) -> Object:
    """The Scale of a workload or of a custom object. Raises 404, or 400 if a custom object says no number."""
    obj = cluster.require(target).fresh()
    custom = target.resource.custom
    replicas, seen = _custom_numbers(custom.scale, obj) if custom and custom.scale else _numbers(obj)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in _SHOWN_METADATA if key in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": seen,
    }


def _numbers(obj: Object) -> tuple[int, Object]:
    """The wanted replicas, and the status of a Scale."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    seen: Object = {"replicas": status.get("replicas", 0)}
    if selector := _selector_text(spec.get("selector")):
        seen["selector"] = selector
    return spec.get("replicas", 0), seen


def _custom_numbers(paths: ScalePaths, obj: Object) -> tuple[int, Object]:
    wanted = _at(obj, paths.replicas)
    if not isinstance(wanted, int):
        where = "." + ".".join(paths.replicas)
        raise errors.bad_request(f'the spec replicas field "{where}" does not exist')
    seen: Object = {"replicas": _at(obj, paths.status_replicas) or 0}
    if selector := _at(obj, paths.selector) if paths.selector else None:
        seen["selector"] = selector
    return wanted, seen


def _at(obj: Any, path: Path) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def update_scale(cluster: Cluster, target: Target, body: Any) -> Object:
    """Set the wanted replicas from a Scale. Raises 400, 404, 409 or 422."""
    if not isinstance(body, dict) or body.get("kind", "Scale") != "Scale":
        raise errors.bad_request("not a Scale object")
    replicas = section(body, "spec").get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request(f"spec.replicas must be an integer, not {type(replicas).__name__}")
    custom = target.resource.custom
    if replicas < 0 and not custom:
        fault = errors.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid(target.resource, target.name, [fault], kind="Scale", group="autoscaling")
    metadata = section(body, "metadata")
    preconditions = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
    whole = Target(target.resource, target.namespace, target.name)
    change: Any = replicas
    for name in reversed(custom.scale.replicas if custom and custom.scale else ("spec", "replicas")):
        change = {name: change}
    cluster.patch(whole, {"metadata": preconditions, **change}, MERGE)
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
