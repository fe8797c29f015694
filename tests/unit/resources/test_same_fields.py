"""A Pool object and a pool of the configuration have the same fields, with the same defaults, choices and bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from extender.claim_settings import ClaimSettings, PoolSettings
from extender.claims.records import PoolKey
from extender.conversions.pools import configured_policies, configured_pools, custom_policies, custom_pool
from extender.resources import Pool, read
from extender.resources.definitions import schema_of
from extender.server.claims.pools import configured_workloads, custom_workloads
from tests.support.fields import in_whole_numbers, leaves, put

Object = dict[str, Any]

#: Fields that an object has in its metadata.
IN_METADATA = {"namespace", "name"}
#: Where an object has a field that the configuration has under another name, as Kubernetes' own objects have it.
ELSEWHERE = {
    "selector": "selector.matchLabels",
    "lease_seconds": "defaults.leaseSeconds",
    "wait_seconds": "defaults.waitSeconds",
    "max_pending": "limits.maxPending",
    "max_pending_per_tenant": "limits.maxPendingPerTenant",
    "max_pods_per_tenant": "limits.maxPodsPerTenant",
    "max_pods_per_claim": "limits.maxPodsPerClaim",
    "max_cold": "limits.maxCold",
    "autoscaler.min_replicas": "replicas",  # what `kubectl scale` sets
    "autoscaler.max_replicas": "autoscaler.maxReplicas",
}
#: What a schema of Kubernetes says of labels, and the configuration's own model checks.
CHECKED_IN_CODE = {("selector", "additionalProperties")}


WHOLE = PoolSettings.model_json_schema()
CONFIGURED = dict(leaves(WHOLE, WHOLE["$defs"]))
OBJECT = dict(leaves(schema_of(Pool)["properties"]["spec"], {}))


def place(field: str) -> str:
    return ELSEWHERE.get(field) or ".".join(to_camel(part) for part in field.split("."))


def test_both_have_the_same_fields() -> None:
    assert {place(field) for field in CONFIGURED if field not in IN_METADATA} == set(OBJECT)


@pytest.mark.parametrize("field", sorted(set(CONFIGURED) - IN_METADATA))
def test_both_say_the_same_of_a_field(field: str) -> None:
    ours, theirs = CONFIGURED[field], OBJECT[place(field)]
    assert in_whole_numbers(ours) == in_whole_numbers(theirs)
    if "additionalProperties" in ours and (field, "additionalProperties") not in CHECKED_IN_CODE:
        values = in_whole_numbers(ours["additionalProperties"]), in_whole_numbers(theirs["additionalProperties"])
        if field == "weights":  # any positive number in the configuration: a validator checks it
            assert values[1] == {"type": "number", "minimum": 1, "maximum": 1000}
        else:
            assert values[0] == values[1]


#: A value for each field that is not its default.
UNUSUAL: Object = {
    "selector": {"app": "a"},
    "mode": "recycle",
    "order": "pack",
    "images": {"main": "idle:1"},
    "weights": {"blue": 2},
    "ends_on_restart": False,
    "workload.kind": "StatefulSet",
    "workload.name": "w",
    "autoscaler.buffer": "none",
    "autoscaler.min_replicas": 2,
    "autoscaler.max_replicas": 9,
}


def test_both_become_the_same_pool() -> None:
    """Every field has an unusual value of its own, so one that is lost, or mixed up with another, is seen."""
    given: Object = {"namespace": "n", "name": "p"}
    spec: Object = {}
    for number, field in enumerate(sorted(set(CONFIGURED) - IN_METADATA), 11):
        value = UNUSUAL.get(field, number)
        put(given, field, value)
        put(spec, place(field), value)
    key = PoolKey("n", "p")
    settings = ClaimSettings.model_validate({"pools": [given]})
    found = read(Pool, {"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
    assert configured_pools(settings) == (custom_pool(found),)
    assert configured_policies(settings) == custom_policies({key: found.spec})
    assert configured_workloads(settings) == custom_workloads({key: found.spec})
    defaults = configured_pools(ClaimSettings.model_validate({"pools": [{"name": "p", "selector": {"a": "b"}}]}))[0]
    (made,) = configured_pools(settings)
    same = {name for name in made.__slots__ if getattr(made, name) == getattr(defaults, name)}
    assert same == {"template"}  # which the workload has
