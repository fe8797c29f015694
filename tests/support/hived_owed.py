"""Whether every virtual cluster can have what it is owed on healthy hardware, whatever others do."""

from __future__ import annotations

from tests.conformance.hived_machine import assert_granted, owed
from tests.support.hived_world import World


def assert_owed_is_granted(world: World) -> None:
    for tenant in world.hive.layout.tenants.values():
        for wish in owed(world.hive, tenant):
            assert_granted(world, tenant.name, wish)
