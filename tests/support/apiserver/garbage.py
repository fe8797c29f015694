"""What garbage collection must do on any API server that has one: the embedded one, and kube-controller-manager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.custom import CRDS, definition, widget

GROUP = "owners.test"
Object = dict[str, Any]


def widgets(api: Api, rest: str = "") -> str:
    return api.path(f"widgets{rest}", f"apis/{GROUP}/v1")


def owner(api: Api, name: str, **metadata: Any) -> Object:
    """A custom object, which can own others."""
    response = api.post(widgets(api), widget(GROUP, name, metadata=metadata))
    assert response.status_code == 201, response.text
    return response.json()


def reference(obj: Object, **more: Any) -> Object:
    whose = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "name": obj["metadata"]["name"]}
    return {**whose, "uid": obj["metadata"]["uid"], **more}


def owned(api: Api, name: str, *references: Object, **metadata: Any) -> None:
    body = {"metadata": {"name": name, "ownerReferences": list(references), **metadata}}
    assert api.post("configmaps", body).status_code == 201


def settled(api: Api) -> None:
    """What the collector does about a change is done before an object that came later is collected."""
    owned(api, "sentinel", reference({"metadata": {"name": "nobody", "uid": "no"}}))
    eventually(lambda: "sentinel" not in api.names("configmaps"))


def a_custom_resource_takes_along_what_it_owns_and_what_that_owns(api: Api) -> None:
    top = owner(api, "top")
    middle = owner(api, "middle", ownerReferences=[reference(top)])
    owned(api, "leaf", reference(middle))
    owned(api, "other")
    api.delete(widgets(api, "/top"))
    eventually(lambda: api.names("configmaps") == ["other"] and not api.names(widgets(api)))


def one_owner_that_is_left_keeps_the_object_and_the_others_are_forgotten(api: Api) -> None:
    one, other = owner(api, "one"), owner(api, "other")
    owned(api, "both", reference(one), reference(other))
    api.delete(widgets(api, "/one"))
    eventually(lambda: api.get("configmaps/both").json()["metadata"]["ownerReferences"] == [reference(other)])
    api.delete(widgets(api, "/other"))
    eventually(lambda: not api.names("configmaps"))


def an_object_that_names_an_absent_owner_goes(api: Api) -> None:
    one = owner(api, "one")
    owned(api, "stays", reference(one))
    owned(api, "uid", {**reference(one), "uid": "another"})
    owned(api, "name", {**reference(one), "name": "another", "uid": "another"})
    eventually(lambda: api.names("configmaps") == ["stays"])


def owners_of_an_unknown_kind_and_in_other_places_count_as_present(api: Api) -> None:
    owned(api, "kind", {"apiVersion": "unknown.test/v1", "kind": "Thing", "name": "t", "uid": "u"})
    one = owner(api, "one")
    metadata = {"name": f"x{api.namespace}", "ownerReferences": [{**reference(one), "uid": "another"}]}
    made = api.post("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "x", "metadata": metadata})
    assert made.status_code == 201, made.text
    settled(api)
    assert api.names("configmaps") == ["kind"]
    assert f"x{api.namespace}" in api.names("/apis/node.k8s.io/v1/runtimeclasses")


def orphans_stay(api: Api) -> None:
    owned(api, "orphan", reference(owner(api, "one")))
    api.delete(widgets(api, "/one"), propagationPolicy="Orphan")
    eventually(lambda: "ownerReferences" not in api.get("configmaps/orphan").json()["metadata"])
    settled(api)
    assert "orphan" in api.names("configmaps")


def in_the_foreground_the_owner_goes_after_what_blocks_it(api: Api) -> None:
    one = owner(api, "one")
    owned(api, "slow", reference(one, blockOwnerDeletion=True), finalizers=["test/f"])
    owned(api, "free", reference(one), finalizers=["test/f"])
    going = api.delete(widgets(api, "/one"), propagationPolicy="Foreground").json()
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: "deletionTimestamp" in api.get("configmaps/slow").json()["metadata"])
    assert api.names(widgets(api)) == ["one"]
    api.patch("configmaps/slow", {"metadata": {"finalizers": None}})
    eventually(lambda: not api.names(widgets(api)))
    assert api.names("configmaps") == ["free"]


def a_foreground_deletion_without_dependents_is_over_at_once(api: Api) -> None:
    owner(api, "one")
    api.delete(widgets(api, "/one"), propagationPolicy="Foreground")
    eventually(lambda: not api.names(widgets(api)))


def what_the_objects_of_a_deleted_definition_owned_goes_as_well(api: Api) -> None:
    # A real server serves it a moment later: its tests have made it before.
    assert api.post(CRDS, definition("short.test", kind="Gadget")).status_code in (201, 409)
    made = api.post(api.path("gadgets", "apis/short.test/v1"), widget("short.test", "g", kind="Gadget")).json()
    whose = {"apiVersion": "short.test/v1", "kind": "Gadget", "name": "g", "uid": made["metadata"]["uid"]}
    owned(api, "leaf", whose)
    api.delete(f"{CRDS}/gadgets.short.test")
    eventually(lambda: not api.names("configmaps"))


def a_reference_that_is_taken_away_saves_the_object(api: Api) -> None:
    owned(api, "saved", reference(owner(api, "one")))
    api.patch("configmaps/saved", {"metadata": {"ownerReferences": None}})
    api.delete(widgets(api, "/one"))
    settled(api)
    assert api.names("configmaps") == ["saved"]


CHECKS: tuple[Callable[[Api], None], ...] = (
    a_custom_resource_takes_along_what_it_owns_and_what_that_owns,
    one_owner_that_is_left_keeps_the_object_and_the_others_are_forgotten,
    an_object_that_names_an_absent_owner_goes,
    owners_of_an_unknown_kind_and_in_other_places_count_as_present,
    orphans_stay,
    in_the_foreground_the_owner_goes_after_what_blocks_it,
    a_foreground_deletion_without_dependents_is_over_at_once,
    what_the_objects_of_a_deleted_definition_owned_goes_as_well,
    a_reference_that_is_taken_away_saves_the_object,
)
