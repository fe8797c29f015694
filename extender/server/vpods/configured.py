"""Converts the section `vpods` of the configuration to the engine's records."""

from __future__ import annotations

from typing import cast

from extender.core import field_paths
from extender.vpod_settings import VPodResourceSettings, VPodSetSettings, VPodSettings
from extender.vpods.records import VPOD_OBJECTS, FieldPath, ObjectKey, SetSettings, VPodSource


def configured_sets(settings: VPodSettings) -> tuple[SetSettings, ...]:
    """Return the sets of the configuration."""
    return tuple(map(_set, settings.sets))


def configured_sources(settings: VPodSettings) -> tuple[VPodSource, ...]:
    """Return what is placed: VPod objects, if custom resources are served, and the resources of the configuration."""
    own = (VPOD_OBJECTS,) if settings.custom_resources else ()
    return (*own, *map(_source, settings.resources))


def _set(settings: VPodSetSettings) -> SetSettings:
    return SetSettings(
        key=ObjectKey(settings.namespace, settings.name),
        workload=settings.stateful_set,
        capacity=settings.capacity,
        policy=settings.policy,
        policy_settings=settings.policy_settings,
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
        scales=settings.autoscale,
        max_moves=settings.max_moves,
        unready_seconds=settings.unready_seconds,
        scale_down_seconds=settings.scale_down_seconds,
        scale_up_step=settings.scale_up_step,
        scale_down_step=settings.scale_down_step,
        scale_up_seconds=settings.scale_up_seconds,
        partial_seconds=settings.partial_seconds,
        overlap_seconds=settings.overlap_seconds,
        zones=settings.zones,
        namespaces=settings.namespaces,
    )


def _source(settings: VPodResourceSettings) -> VPodSource:
    namespace, _, name = settings.set.partition("/")
    return VPodSource(
        name=settings.name,
        group=settings.group,
        version=settings.version,
        resource=settings.resource,
        wanted=_path(settings.wanted),
        placements=_path(settings.placements),
        default_wanted=settings.default_wanted,
        set=ObjectKey(namespace, name),
        where=tuple((_path(path), text) for path, text in settings.where.items()),
    )


def _path(text: str) -> FieldPath:
    return cast(FieldPath, field_paths.parse(text).steps)
