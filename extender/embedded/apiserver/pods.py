"""What only pods have: binding them to a node, and evicting them as far as disruption budgets allow.

Rules and texts follow k8s.io/kubernetes pkg/registry/core/pod/storage (storage.go, eviction.go).
"""

from __future__ import annotations

from typing import Any

from extender.embedded.apiserver import errors
from extender.embedded.apiserver.budgets import budgets_of, count
from extender.embedded.apiserver.cluster import Cluster, DeleteOptions
from extender.embedded.apiserver.conditions import is_ready, set_condition
from extender.embedded.apiserver.objects import Object, section, text
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Stored
from extender.embedded.apiserver.table import PODS
from extender.embedded.apiserver.validation import read_metadata

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def bind(cluster: Cluster, target: Target, binding: Object) -> Object:
    """Put a pod on a node, with the Binding's labels and annotations, as one write.

    The node need not exist. Raises 404 if the pod is gone; 409 if it is another one (UID), already bound, terminating
    or gated; 400 or 422 for a malformed Binding. Returns a Success status.
    """
    metadata, node = _read_binding(target, binding)
    stored = cluster.require(target)
    uid = metadata.get("uid", "")
    if uid and uid != stored.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored.uid}"
        raise errors.conflict(PODS, target.name, why)
    pod = stored.fresh()
    refusal = _why_not_bindable(pod)
    if refusal:
        raise errors.conflict(PODS, target.name, refusal, subresource="binding")
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    for key in ("annotations", "labels"):
        if key in metadata:
            pod["metadata"].setdefault(key, {}).update(metadata[key])
    set_condition(pod["status"], "PodScheduled", "True", now=cluster.now())
    cluster.store.put(PODS, pod)
    return SUCCESS


def _read_binding(target: Target, binding: Any) -> tuple[Object, str]:
    if not isinstance(binding, dict) or binding.get("kind", "Binding") != "Binding":
        raise errors.bad_request("not a Binding object")
    metadata = read_metadata(binding)
    if metadata.get("name", "") != target.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    place = section(binding, "target")
    kind, node = text(place, "kind", "target"), text(place, "name", "target")
    faults = []
    if kind not in ("", "Node"):
        faults.append(errors.unsupported_value("target.kind", kind, ["Node", "<empty>"]))
    if not node:
        faults.append(errors.required("target.name"))
    if faults:
        raise errors.invalid(PODS, target.name, faults, kind="Binding")
    return metadata, node


def _why_not_bindable(pod: Object) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def evict(cluster: Cluster, target: Target, eviction: Object, options: DeleteOptions) -> Object:
    """Delete a pod gracefully if its disruption budgets allow it. Raises 404, 409 or 429. Returns a Success status.

    A dry run raises the same, and deletes nothing.
    """
    if not isinstance(eviction, dict) or eviction.get("kind", "Eviction") != "Eviction":
        raise errors.bad_request("not an Eviction object")
    if read_metadata(eviction).get("name", target.name) != target.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    stored = cluster.require(target)
    pod = stored.fresh()
    if not _without_budget(pod):
        _check_budgets(cluster, stored, pod)
    cluster.delete(Target(PODS, target.namespace, target.name), options)
    return SUCCESS


def _without_budget(pod: Object) -> bool:
    """Pods that do not run yet, no longer, or are going anyway may always be evicted."""
    return "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ("Pending", "Succeeded", "Failed")


def _check_budgets(cluster: Cluster, stored: Stored, pod: Object) -> None:
    budgets = budgets_of(cluster.store, stored)
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise errors.ApiError(500, "InternalError", message)
    for budget in budgets:
        counts = count(cluster.store, stored.key[0], budget)
        if not is_ready(pod) and counts.healthy >= counts.desired:
            continue
        if counts.allowed < 1:
            name = budget["metadata"]["name"]
            message = (
                f"The disruption budget {name} needs {counts.desired} healthy pods and has {counts.healthy} currently"
            )
            raise errors.too_many_requests(_VIOLATES, causes=[{"reason": "DisruptionBudget", "message": message}])
