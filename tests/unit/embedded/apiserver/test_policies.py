"""Policies about the deletion of pods: the forms that are understood, and that all others refuse nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.apiserver.api import Api, reason

CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
GROUP = "/apis/admissionregistration.k8s.io/v1"
BY_CONTROLLER = f'request.userInfo.username == "{CONTROLLER}"'
NOT_CLAIMED = '!("waggle.dev/claim" in oldObject.metadata.?annotations.orValue({}))'


def policy(*, validation: str = NOT_CLAIMED, condition: str = BY_CONTROLLER, **rule: Any) -> dict[str, Any]:
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"], **rule}
    return {
        "metadata": {"name": "guard"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rules]},
            "matchConditions": [{"name": "by", "expression": condition}],
            "validations": [{"expression": validation, "message": "it is claimed"}],
        },
    }


@pytest.fixture
def binding(api: Api) -> Iterator[None]:
    spec = {"policyName": "guard", "validationActions": ["Deny"]}
    api.post(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "guard"}, "spec": spec})
    yield
    api.delete(f"{GROUP}/validatingadmissionpolicybindings/guard")
    api.delete(f"{GROUP}/validatingadmissionpolicies/guard")


def install(api: Api, body: dict[str, Any]) -> None:
    assert api.post(f"{GROUP}/validatingadmissionpolicies", body).status_code == 201


def delete(api: Api, name: str, user: str = CONTROLLER) -> Any:
    return api.http.delete(api.path(f"pods/{name}"), headers={"impersonate-user": user})


@pytest.mark.usefixtures("binding")
@pytest.mark.parametrize(
    "validation",
    [
        NOT_CLAIMED,
        "!('waggle.dev/claim' in oldObject.metadata.?annotations.orValue({}))",
        '!has(oldObject.metadata.annotations) ||\n  !("waggle.dev/claim" in oldObject.metadata.annotations)',
    ],
)
def test_a_claimed_pod_is_kept_from_the_one_who_is_named(api: Api, validation: str) -> None:
    install(api, policy(validation=validation))
    api.create_pod("claimed", annotations={"waggle.dev/claim": "c"})
    api.create_pod("free")
    refused = delete(api, "claimed")
    assert reason(refused) == (422, "Invalid")
    assert "ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: it is claimed" in refused.text
    assert api.names("pods") == ["claimed", "free"]
    assert delete(api, "free").status_code == 200
    assert delete(api, "claimed", user="somebody").status_code == 200


@pytest.mark.usefixtures("binding")
@pytest.mark.parametrize(
    "body",
    [
        policy(operations=["UPDATE"]),
        policy(resources=["nodes"]),
        policy(condition="object.spec.x == 1"),
        policy(validation="oldObject.spec.nodeName == ''"),
        {"metadata": {"name": "guard"}, "spec": {}},
        {"metadata": {"name": "guard"}, "spec": {"matchConstraints": [], "validations": "x"}},
    ],
)
def test_what_does_not_match_or_is_not_understood_refuses_nothing(api: Api, body: dict[str, Any]) -> None:
    install(api, body)
    api.create_pod("claimed", annotations={"waggle.dev/claim": "c"})
    assert delete(api, "claimed").status_code == 200


def test_a_policy_without_a_binding_that_denies_refuses_nothing(api: Api) -> None:
    install(api, policy())
    api.create_pod("claimed", annotations={"waggle.dev/claim": "c"})
    assert delete(api, "claimed").status_code == 200
    api.delete(f"{GROUP}/validatingadmissionpolicies/guard")
