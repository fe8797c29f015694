"""`waggle lint ordering`: finds declarations of start-up ordering that would hold pods back for ever, in manifests.

findings = lint(scene)      in the order of the rules, then of the objects
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.operate.ordering_rules import ORDERING
from extender.operate.ordering_scene import OrderingScene
from extender.operate.scene_rules import SceneFinding


def lint(scene: OrderingScene, *, ignore: Iterable[str] = ()) -> list[SceneFinding]:
    """Return the findings of all rules except those whose codes are in `ignore`."""
    return ORDERING.lint(scene, scene.dependants, ignore)


def unseen(scene: OrderingScene) -> list[str]:
    """Return what was not checked."""
    return [
        *scene.unread,
        "Objects that are in the cluster already: only these files were read.",
        "Whether start-up ordering is switched on (`ordering.enabled`), and which kinds it follows.",
    ]


def as_text(scene: OrderingScene, findings: Sequence[SceneFinding]) -> str:
    """Return the report as text."""
    return ORDERING.as_text(scene, scene.dependants, findings, unseen(scene))


def as_json(scene: OrderingScene, findings: Sequence[SceneFinding]) -> str:
    """Return the report as a JSON object."""
    return ORDERING.as_json(scene.dependants, findings, unseen(scene))
