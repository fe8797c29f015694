"""The configuration becomes the engine's records."""

from __future__ import annotations

from extender.conversions.vpod_sets import configured_sets, sources
from extender.core.field_paths import parse
from extender.vpod_settings import VPodSettings
from extender.vpods.records import VPOD_OBJECTS, ObjectKey, SetSettings, VPodSource

SETS = [{"namespace": "kafka", "name": "sources", "stateful_set": "dispatcher", "capacity": 20}]
RESOURCES = [
    {
        "name": "groups",
        "group": "internal.kafka.eventing.knative.dev",
        "version": "v1alpha1",
        "resource": "consumergroups",
        "wanted": ".spec['replicas']",
        "placements": ".status.placeable.placements",
        "default_wanted": 2,
        "spread": 3,
        "set": "kafka/sources",
        "where": {".spec.parts[0].kind": "KafkaSource"},
    }
]


def test_a_set_has_the_engines_defaults() -> None:
    """So that a set of a test, of a plan and of an operator who says nothing are the same."""
    (made,) = configured_sets(VPodSettings.model_validate({"sets": SETS}))
    assert made == SetSettings(key=ObjectKey("kafka", "sources"), workload="dispatcher", capacity=20)


def test_a_resource_becomes_a_source() -> None:
    (made,) = sources(VPodSettings.model_validate({"sets": SETS, "resources": RESOURCES}))
    assert made == VPodSource(
        name="groups",
        group="internal.kafka.eventing.knative.dev",
        version="v1alpha1",
        resource="consumergroups",
        wanted=parse(".spec.replicas"),
        placements=parse(".status.placeable.placements"),
        default_wanted=2,
        spread=3,
        set=ObjectKey("kafka", "sources"),
        where=((parse(".spec.parts[0].kind"), "KafkaSource"),),
    )


def test_vpod_objects_are_a_source_if_they_are_served() -> None:
    settings = VPodSettings.model_validate({"sets": SETS, "resources": RESOURCES, "custom_resources": True})
    assert [each.name for each in sources(settings)] == [VPOD_OBJECTS.name, "groups"]
    assert sources(VPodSettings()) == ()
