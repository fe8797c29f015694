"""What must hold before an object is stored; every field at fault is named, in the real server's words.

Only rules that scheduling depends on, or that a mistake in a manifest commonly meets, are here. Rules and texts follow
k8s.io/kubernetes pkg/apis/core/validation and k8s.io/apimachinery/pkg/util/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from extender.embedded.apiserver.custom.definitions import definition_changes, definition_faults
from extender.embedded.apiserver.custom.objects import faults as custom_faults
from extender.embedded.apiserver.defaults import pod_containers
from extender.embedded.apiserver.errors import (
    FieldError,
    bad_request,
    duplicate,
    forbidden_field,
    invalid,
    invalid_value,
    required,
    unsupported_value,
)
from extender.embedded.apiserver.objects import Object, items, section, text
from extender.embedded.apiserver.quantities import value_of
from extender.embedded.apiserver.resources import Resource
from extender.embedded.apiserver.selectors import Requirement, from_label_selector

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_OVERCOMMITTABLE = ("cpu", "memory", "ephemeral-storage", "storage")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POD_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate(resource: Resource, obj: Object) -> None:
    """Raises 422 Invalid naming every field at fault, or 400 if a field has the wrong type."""
    faults = [*_metadata(resource, obj)]
    rules = _RULES.get(resource.kind)
    if resource.custom:
        faults.extend(custom_faults(resource.custom, obj))
    elif rules:
        faults.extend(rules(obj))
    if faults:
        raise invalid(resource, obj["metadata"].get("name", ""), faults)


def validate_update(resource: Resource, new: Object, old: Object) -> None:
    """What may not change once it is stored. Raises 422 Invalid."""
    faults: list[FieldError] = []
    if resource.custom:
        return
    if resource.kind == "Pod":
        faults.extend(_pod_update(new["spec"], old["spec"]))
    elif resource.group == "apps" and new.get("spec", {}).get("selector") != old.get("spec", {}).get("selector"):
        faults.append(invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable"))
    elif resource.kind == "CustomResourceDefinition":
        faults.extend(definition_changes(new, old))
    elif resource.kind == "PriorityClass" and new.get("value") != old.get("value"):
        faults.append(forbidden_field("value", "may not be changed in an update."))
    if faults:
        raise invalid(resource, new["metadata"]["name"], faults)


def read_metadata(obj: Object) -> Object:
    """The metadata of a request's object, with the types that the rest of this server relies on. Raises 400."""
    metadata = section(obj, "metadata")
    for key in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        text(metadata, key, "metadata")
    for key in ("labels", "annotations"):
        for name, value in section(metadata, key, "metadata").items():
            if not isinstance(value, str):
                raise bad_request(f"metadata.{key}[{name}] must be a string, not {type(value).__name__}")
        if not metadata[key]:
            del metadata[key]
    for key in ("finalizers", "ownerReferences"):
        if metadata.get(key) == []:
            del metadata[key]
    return metadata


def _metadata(resource: Resource, obj: Object) -> Iterator[FieldError]:
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif resource.kind == "Namespace" and not resource.custom:
        if len(name) > 63 or not re.fullmatch(_LABEL, name, re.ASCII):
            yield invalid_value("metadata.name", name, _LABEL_TEXT)
    elif not re.fullmatch(_SUBDOMAIN, name, re.ASCII):
        yield invalid_value("metadata.name", name, _SUBDOMAIN_TEXT)
    elif len(name) > 253:
        yield invalid_value("metadata.name", name, "must be no more than 253 characters")
    for value in metadata.get("labels", {}).values():
        if not _LABEL_VALUE.fullmatch(value):
            yield invalid_value("metadata.labels", value, _LABEL_VALUE_TEXT)
        elif len(value) > 63:
            yield invalid_value("metadata.labels", value, "must be no more than 63 characters")


def _pod(obj: Object) -> Iterator[FieldError]:
    spec = obj["spec"]
    if not items(spec, "containers", "spec"):
        yield required("spec.containers")
    seen: set[str] = set()
    for path, container in pod_containers(obj):
        yield from _container(path, container, seen)
    grace = spec.get("terminationGracePeriodSeconds", 0)
    if not isinstance(grace, int):
        raise bad_request("spec.terminationGracePeriodSeconds must be an integer")
    gates: set[str] = set()
    for index, gate in enumerate(items(spec, "schedulingGates", "spec")):
        name = text(gate, "name", f"spec.schedulingGates[{index}]")
        if name in gates:
            yield duplicate(f"spec.schedulingGates[{index}]", name)
        gates.add(name)
    if gates and spec.get("nodeName"):
        yield forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    policies = ("Always", "OnFailure", "Never")
    if spec["restartPolicy"] not in policies:
        yield unsupported_value("spec.restartPolicy", spec["restartPolicy"], policies)


def _container(path: str, container: Object, seen: set[str]) -> Iterator[FieldError]:
    name = text(container, "name", path)
    if not name:
        yield required(f"{path}.name")
    elif len(name) > 63 or not re.fullmatch(_LABEL, name, re.ASCII):
        yield invalid_value(f"{path}.name", name, _LABEL_TEXT)
    elif name in seen:
        yield duplicate(f"{path}.name", name)
    seen.add(name)
    if not text(container, "image", path):
        yield required(f"{path}.image")
    yield from _requirements(f"{path}.resources", container["resources"])


def _requirements(path: str, resources: Object) -> Iterator[FieldError]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for key, amounts in (("limits", limits), ("requests", requests)):
        yield from _amounts(f"{path}.{key}", amounts)
    for name, amount in requests.items():
        extended = _is_extended(name)
        if extended and name not in limits:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif extended and amount != limits[name]:
            detail = f"must be equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", amount, detail)
        elif name in limits and value_of(amount) > value_of(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", amount, detail)


def _amounts(path: str, amounts: Object) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        value = value_of(amount)
        if value < 0:
            yield invalid_value(f"{path}[{name}]", amount, "must be greater than or equal to 0")
        elif _is_extended(name) and value != int(value):
            yield invalid_value(f"{path}[{name}]", amount, "must be an integer")


def _is_extended(name: str) -> bool:
    return name not in _OVERCOMMITTABLE and "/" in name and not name.startswith("kubernetes.io/")


def _pod_update(new: Object, old: Object) -> Iterator[FieldError]:
    gates = {gate.get("name") for gate in items(old, "schedulingGates", "spec")}
    for index, gate in enumerate(items(new, "schedulingGates", "spec")):
        if gate.get("name") not in gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", why)
    if any(toleration not in new["tolerations"] for toleration in old["tolerations"]):
        yield forbidden_field(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    if _fixed_part(new, gated=bool(gates)) != _fixed_part(old, gated=bool(gates)):
        yield forbidden_field("spec", _POD_UPDATE_TEXT)


def _fixed_part(spec: Object, *, gated: bool) -> Object:
    """The part of a pod's spec that no update may change. A gated pod may still be told where to go."""
    loose = {"tolerations", "schedulingGates", "activeDeadlineSeconds", "terminationGracePeriodSeconds"}
    if gated:
        loose |= {"nodeSelector", "affinity"}
    fixed: dict[str, Any] = {key: value for key, value in spec.items() if key not in loose}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [{k: v for k, v in each.items() if k != "image"} for each in fixed[key]]
    return fixed


def _node(obj: Object) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(items(obj["spec"], "taints", "spec")):
        path = f"spec.taints[{index}]"
        key, effect = text(taint, "key", path), text(taint, "effect", path)
        if not key:
            yield required(f"{path}.key")
        if effect not in _EFFECTS:
            yield unsupported_value(f"{path}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            yield duplicate(path, f"{key}:{effect}")
        seen.add((key, effect))
    for key in ("capacity", "allocatable"):
        yield from _amounts(f"status.{key}", obj["status"].get(key, {}))


def _priority_class(obj: Object) -> Iterator[FieldError]:
    value, name = obj["value"], obj["metadata"].get("name", "")
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request("value must be an integer")
    if value > 1_000_000_000 and not name.startswith("system-"):
        yield forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000")


def _budget(obj: Object) -> Iterator[FieldError]:
    spec = section(obj, "spec")
    if "selector" in spec:
        _selector(spec)
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid_value("spec", "", "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        value = spec.get(key, 0)
        if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value, re.ASCII):
            yield invalid_value(f"spec.{key}", value, _PERCENT_TEXT)
        elif not isinstance(value, str) and (not isinstance(value, int) or value < 0):
            yield invalid_value(f"spec.{key}", value, "must be greater than or equal to 0")


def _selector(spec: Object) -> tuple[Requirement, ...]:
    """spec.selector as requirements. Raises 400 if it is no label selector."""
    try:
        return from_label_selector(section(spec, "selector", "spec"))
    except (AttributeError, KeyError, TypeError):
        raise bad_request(
            "spec.selector must have matchLabels (strings), matchExpressions (with key, operator, values), or both"
        ) from None


def _workload(obj: Object) -> Iterator[FieldError]:
    spec = obj["spec"]
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(f"spec.replicas must be an integer, not {type(replicas).__name__}")
    if replicas < 0:
        yield invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
    labels = section(spec["template"]["metadata"], "labels", "spec.template.metadata")
    requirements = _selector(spec)
    if not requirements:
        yield required("spec.selector")
    elif not all(each.matches(labels) for each in requirements):
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if not items(spec["template"]["spec"], "containers", "spec.template.spec"):
        yield required("spec.template.spec.containers")


_RULES: dict[str, Callable[[Object], Iterator[FieldError]]] = {
    "Pod": _pod,
    "Node": _node,
    "PriorityClass": _priority_class,
    "CustomResourceDefinition": definition_faults,
    "PodDisruptionBudget": _budget,
    **dict.fromkeys(("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"), _workload),
}
