"""Converts sets and resources of the configuration, and VPodSet objects, to the engine's records."""

from __future__ import annotations

from extender import resources
from extender.core import field_paths
from extender.vpod_settings import VPodResourceSettings, VPodSetSettings, VPodSettings
from extender.vpods.records import VPOD_OBJECTS, ObjectKey, SetSettings, VPodSource


def configured_sets(settings: VPodSettings) -> tuple[SetSettings, ...]:
    """Return the sets of the configuration."""
    return tuple(_set(ObjectKey(each.namespace, each.name), each) for each in settings.sets)


def custom_set(found: resources.VPodSet) -> SetSettings:
    """Return the set of a VPodSet object."""
    return _set(ObjectKey(found.metadata.namespace, found.metadata.name), found.spec)


def _set(key: ObjectKey, given: VPodSetSettings | resources.VPodSetSpec) -> SetSettings:
    return SetSettings(
        key=key,
        workload=given.stateful_set,
        capacity=given.capacity,
        policy=given.policy,
        policy_settings=dict(given.policy_settings),
        min_replicas=given.min_replicas,
        max_replicas=given.max_replicas,
        scales=given.autoscale,
        max_moves=given.max_moves,
        unready_seconds=float(given.unready_seconds),
        scale_down_seconds=float(given.scale_down_seconds),
        scale_up_step=given.scale_up_step,
        scale_down_step=given.scale_down_step,
        scale_up_seconds=float(given.scale_up_seconds),
        partial_seconds=None if given.partial_seconds is None else float(given.partial_seconds),
        overlap_seconds=float(given.overlap_seconds),
        zones=given.zones,
        namespaces=tuple(given.namespaces),
    )


def sources(settings: VPodSettings) -> tuple[VPodSource, ...]:
    """Return all kinds of objects that are vpods: those of the configuration, and VPod objects if they are served."""
    configured = tuple(_source(each) for each in settings.resources)
    return (VPOD_OBJECTS, *configured) if settings.custom_resources else configured


def _source(given: VPodResourceSettings) -> VPodSource:
    namespace, _, name = given.set.partition("/")
    return VPodSource(
        name=given.name,
        group=given.group,
        version=given.version,
        resource=given.resource,
        wanted=field_paths.parse(given.wanted),
        placements=field_paths.parse(given.placements),
        default_wanted=given.default_wanted,
        spread=given.spread,
        set=ObjectKey(namespace, name),
        where=tuple((field_paths.parse(path), value) for path, value in given.where.items()),
    )
