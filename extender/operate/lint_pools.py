"""`waggle lint pool`: finds misconfigured pools, from files or from the API server.

    findings = lint(scene)      in the order of the rules, then of the pools

A pool without findings may still be wrong: `unseen` says what was not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extender.kube.client.api import ApiServer
from extender.operate.pool_rules import POOLS
from extender.operate.pool_scene import LintedPool, Scene
from extender.operate.rights import Right, allowed
from extender.operate.scene_rules import SceneFinding


def lint(scene: Scene, *, ignore: Iterable[str] = ()) -> list[SceneFinding]:
    """Return the findings of all rules except those whose codes are in `ignore`."""
    return POOLS.lint(scene, scene.pools, ignore)


def rights_of_claims(namespace: str) -> list[Right]:
    """Return the rights that claims need for the pools of a namespace."""
    return [Right(verb, "pods", namespace=namespace) for verb in ("get", "list", "watch", "patch", "delete")]


def missing_rights(api: ApiServer, pools: Iterable[LintedPool]) -> Mapping[str, list[str]]:
    """What the account of `api` may not do, by the namespaces of pools. Raises as `rights.allowed` does."""
    found: dict[str, list[str]] = {}
    for namespace in sorted({pool.namespace for pool in pools}):
        found[namespace] = [str(right) for right in rights_of_claims(namespace) if not allowed(api, right)]
    return found


def unseen(scene: Scene) -> list[str]:
    """Return what was not checked."""
    found = list(scene.unread)
    if scene.objects is None:
        found.append(
            "Workloads, budgets, autoscalers and policies: give them by --objects FILE, or read them by --cluster."
        )
    if scene.missing_rights is None:
        found.append("Waggle's rights: --cluster checks those of the account that it uses.")
    return [*found, "Whether the images of a pool's pods start, and how long that takes."]


def as_text(scene: Scene, findings: Sequence[SceneFinding]) -> str:
    """Return the report as text."""
    return POOLS.as_text(scene, scene.pools, findings, unseen(scene))


def as_json(scene: Scene, findings: Sequence[SceneFinding]) -> str:
    """Return the report as a JSON object."""
    return POOLS.as_json(scene.pools, findings, unseen(scene))
