"""ValidatingAdmissionPolicies, as far as deleting pods goes: the subset that the manifests of claims need.

A policy counts if a binding that denies names it, its rules match the deletion, and all its expressions are of these
forms (blanks do not matter). A policy with any other expression is stored, and refuses nothing here.

    matchConditions    request.userInfo.username == "USER"      (or != "USER")
    validations        !("NAME" in oldObject.metadata.?annotations.orValue({}))
                       !has(oldObject.metadata.annotations) || !("NAME" in oldObject.metadata.annotations)
                       (or labels instead of annotations)

Who asks is known of the controllers in this server, which have their real names, and of clients that say
Impersonate-User.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from extender.embedded.apiserver.errors import denied_by_policy
from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.resources import Resource
from extender.embedded.apiserver.store import Store, Stored
from extender.embedded.apiserver.table import (
    PODS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)

_QUOTED = r"(?:\"(?P<{0}>[^\"\\]+)\"|'(?P<{0}2>[^'\\]+)')"
_USER = re.compile(r"request\.userInfo\.username(?P<op>==|!=)" + _QUOTED.format("user"))
_LACKS = re.compile(
    r"\(?(?:!has\(oldObject\.metadata\.(?P<has>annotations|labels)\)\|\|)?!\("
    + _QUOTED.format("name")
    + r"inoldObject\.metadata\.(?:\?(?P<kind>annotations|labels)\.orValue\(\{\}\)|(?P<plain>annotations|labels))\)\)?"
)
_BLANKS = re.compile(r"\s+")


def check_delete(store: Store, resource: Resource, stored: Stored, user: str) -> None:
    """Raises 422 if a policy refuses that `user` deletes the object."""
    if resource is not PODS:
        return
    for binding in store.collection(VALIDATING_ADMISSION_POLICY_BINDINGS):
        bound = binding.fresh().get("spec", {})
        policy = store.collection(VALIDATING_ADMISSION_POLICIES).get(("", str(bound.get("policyName", ""))))
        if policy is not None and "Deny" in bound.get("validationActions", []):
            why = _refusal(policy.fresh().get("spec", {}), resource, stored, user)
            if why:
                name, by = policy.key[1], binding.key[1]
                text = f"ValidatingAdmissionPolicy '{name}' with binding '{by}' denied request: {why}"
                raise denied_by_policy(resource, stored.key[1], text)


def _refusal(spec: Object, resource: Resource, stored: Stored, user: str) -> str:
    """Why the policy refuses; "" if it does not, or has anything in it that is not understood."""
    try:
        if not any(_matches(rule, resource) for rule in spec["matchConstraints"]["resourceRules"]):
            return ""
        conditions = [_condition(each["expression"]) for each in spec.get("matchConditions", [])]
        checks = [(_validation(each["expression"]), each) for each in spec["validations"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""
    if not all(holds(user) for holds in conditions):
        return ""
    metadata = stored.fresh()["metadata"]
    broken = next((each for passes, each in checks if not passes(metadata)), None)
    return "" if broken is None else str(broken.get("message") or f"failed expression: {broken['expression']}")


def _matches(rule: Object, resource: Resource) -> bool:
    return (
        bool({"*", "DELETE"} & set(rule["operations"]))
        and bool({"*", resource.group} & set(rule["apiGroups"]))
        and bool({"*", resource.plural} & set(rule["resources"]))
    )


def _condition(expression: str) -> Callable[[str], bool]:
    match = _USER.fullmatch(_BLANKS.sub("", expression))
    if match is None:
        raise ValueError(expression)
    named, equal = match["user"] or match["user2"], match["op"] == "=="
    return lambda user: (user == named) == equal


def _validation(expression: str) -> Callable[[dict[str, Any]], bool]:
    match = _LACKS.fullmatch(_BLANKS.sub("", expression))
    if match is None:
        raise ValueError(expression)
    name, field = match["name"] or match["name2"], match["kind"] or match["plain"]
    return lambda metadata: name not in metadata.get(field, {})
