"""`waggle lint vpods`: finds misconfigured sets of vpods, from files or from the API server.

    findings = lint(scene)      in the order of the rules, then of the sets

A set without findings may still be wrong: `unseen` says what was not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.kube.client.api import ApiServer
from extender.operate.rights import Right, allowed
from extender.operate.scene_rules import SceneFinding
from extender.operate.set_rules import SETS
from extender.operate.set_scene import LintedSet, SetScene
from extender.settings import Settings


def lint(scene: SetScene, *, ignore: Iterable[str] = ()) -> list[SceneFinding]:
    """Return the findings of all rules except those whose codes are in `ignore`."""
    return SETS.lint(scene, scene.sets, ignore)


def rights_of_set(linted: LintedSet) -> list[Right]:
    """Return the rights in the set's namespace."""
    namespace = linted.key.namespace
    rights = [Right(verb, "pods", namespace=namespace) for verb in ("list", "watch")]
    rights += [Right(verb, "statefulsets", group="apps", namespace=namespace) for verb in ("list", "watch")]
    if linted.settings is None or linted.settings.scales:
        rights.append(Right("patch", "statefulsets", "scale", "apps", namespace=namespace))
    return rights


def rights_of_resources(settings: Settings) -> list[Right]:
    """Return the rights on VPod and VPodSet objects if they are served, and on the configured resources."""
    rights = []
    if settings.vpods.custom_resources:
        rights += [Right(verb, "vpodsets", group="waggle.dev") for verb in ("list", "watch")]
        rights += [Right(verb, "vpods", group="waggle.dev") for verb in ("get", "list", "watch")]
        rights += [Right("patch", plural, "status", "waggle.dev") for plural in ("vpodsets", "vpods")]
    for group, resource in dict.fromkeys((each.group, each.resource) for each in settings.vpods.resources):
        rights += [Right(verb, resource, group=group) for verb in ("get", "list", "watch")]
        rights.append(Right("patch", resource, "status", group))
    return rights


def missing_rights(api: ApiServer, scene: SetScene) -> dict[str, list[str]]:
    """What the account of `api` may not do, by namespace; "" for all of them. Raises as `rights.allowed` does."""
    needed = dict.fromkeys(right for each in scene.sets for right in rights_of_set(each))
    everywhere = rights_of_resources(scene.settings) if scene.settings else []
    found: dict[str, list[str]] = {}
    for right in (*needed, *everywhere):
        if not allowed(api, right):
            found.setdefault(right.namespace, []).append(str(right))
    return found


def unseen(scene: SetScene) -> list[str]:
    """Return what was not checked."""
    found = list(scene.unread)
    if scene.objects is None:
        found.append("StatefulSets, VPods, autoscalers: give them by --objects FILE, or read them by --cluster.")
    if scene.missing_rights is None:
        found.append("Waggle's rights: --cluster checks those of the account that it uses.")
    if scene.settings is not None and scene.settings.vpods.resources:
        found.append("The objects of vpods.resources: how many vreplicas they want, and in which namespaces they are.")
    return [*found, "Whether the pods of a StatefulSet can host as many vreplicas as its capacity says."]


def as_text(scene: SetScene, findings: Sequence[SceneFinding]) -> str:
    """Return the report as text."""
    return SETS.as_text(scene, scene.sets, findings, unseen(scene))


def as_json(scene: SetScene, findings: Sequence[SceneFinding]) -> str:
    """Return the report as a JSON object."""
    return SETS.as_json(scene.sets, findings, unseen(scene))
