"""Makes a plan with its fingerprint, and the plan without the what-if changes that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from extender.plan.files import PlanFile
from extender.plan.fingerprint import fingerprint
from extender.plan.records import Changes, Options, World
from extender.plan.run import make_plan
from extender.plan.showing.difference import Difference, difference


def planned(world: World, changes: Changes, options: Options | None = None, *, namespace: str = "default") -> PlanFile:
    """Return the plan with all that a plan file holds. Raises PlanError for a wrong input."""
    options = options or Options()
    found = fingerprint(world)
    plan = msgspec.structs.replace(make_plan(world, changes, options), fingerprint=found.text)
    return PlanFile(
        release=plan.release,
        plan=plan,
        changes=changes,
        options=options,
        namespace=namespace,
        settings=world.settings,
        scheduler=world.scheduler,
        parts=found.parts,
    )


def what_ifs(changes: Changes) -> Iterator[str]:
    """Yield the options of those changes that are more than the creation of objects."""
    for option, value in (
        ("--settings", changes.settings),
        ("--algorithm", changes.algorithm),
        ("--delete", changes.delete),
        ("--add-nodes", changes.add_nodes),
        ("--cordon", changes.cordon),
        ("--drain", changes.drain),
        ("--priority", changes.priorities),
    ):
        if value not in (None, ()):
            yield option


def compared(world: World, made: PlanFile) -> Difference | None:
    """Return what the what-if changes of a plan change, by making the plan without them; None if it has none.

    Raises PlanError.
    """
    if not any(what_ifs(made.changes)):
        return None
    return difference(make_plan(world, Changes(create=made.changes.create), made.options), made.plan)


def with_warnings(made: PlanFile, warnings: Sequence[str]) -> PlanFile:
    """Return the same with warnings about what was read before those of the plan."""
    plan = msgspec.structs.replace(made.plan, warnings=(*warnings, *made.plan.warnings))
    return msgspec.structs.replace(made, plan=plan)


def with_configurations(made: PlanFile, *, settings: bool, scheduler: bool) -> PlanFile:
    """Return the same, saying which configurations were named by options, and not read from the cluster."""
    return msgspec.structs.replace(made, has_own_settings=settings, has_own_scheduler=scheduler)
