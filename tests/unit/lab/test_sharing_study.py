"""The sharing anomaly, on a small trace: under HiveD nobody waits longer than with machines of its own."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from extender.lab.studies.sharing.figure import draw as picture
from extender.lab.studies.sharing.figure import table, worst_off
from extender.lab.studies.sharing.simulate import Comparison, compare
from extender.lab.studies.sharing.svg import ticks
from extender.lab.studies.sharing.trace import PHILLY, WHOLE_MACHINES, Job, Tenant, draw

TENANTS = [
    *(Tenant(name, 4, 0.95, PHILLY) for name in ("research", "speech", "vision")),
    Tenant("language", 2, 0.6, WHOLE_MACHINES),
]


def one(number: int, tenant: str, devices: int, *, arrival: float, duration: float) -> Job:
    return Job(number, tenant, devices, arrival, duration, guaranteed=True)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(TENANTS, draw(TENANTS, 6, seed=1))


def test_under_hived_every_guaranteed_job_starts_when_it_would_with_the_tenants_own_machines(comparison: Comparison):
    assert comparison.hived.delay == comparison.private.delay
    assert len(comparison.hived.delay) == sum(job.guaranteed for job in comparison.jobs)


def test_opportunistic_jobs_did_run_meanwhile_and_had_to_make_room(comparison: Comparison):
    assert comparison.hived.opportunistic == sum(not job.guaranteed for job in comparison.jobs)
    assert comparison.hived.evictions > 0


def test_under_a_quota_of_devices_somebody_waits_longer_than_with_machines_of_its_own(comparison: Comparison):
    hurt = worst_off(comparison)

    assert sum(comparison.excess(comparison.quota, comparison.of(hurt))) > 60


def test_a_quota_of_devices_keeps_no_machine_whole():
    tenants = [Tenant("small", 1, 0.9, PHILLY), Tenant("large", 1, 0.6, WHOLE_MACHINES)]
    jobs = [
        one(0, "small", 4, arrival=0, duration=10),
        one(1, "small", 4, arrival=1, duration=100),
        one(2, "large", 4, arrival=12, duration=8),  # with a quota, to the machine of job 1, as it is the fuller one
        one(3, "small", 4, arrival=13, duration=100),  # so this one goes to the other machine
        one(4, "large", 8, arrival=21, duration=10),
    ]

    found = compare(tenants, jobs)

    assert found.private.delay[4] == found.hived.delay[4] == 0
    assert found.quota.delay[4] == 101 - 21


def test_the_same_seed_draws_the_same_jobs_and_no_tenants_jobs_depend_on_another_tenant():
    jobs = draw(TENANTS, 6, seed=1)
    fewer = draw(TENANTS[:1], 6, seed=1)

    assert draw(TENANTS, 6, seed=1) == jobs
    assert [job.arrival for job in fewer] == [job.arrival for job in jobs if job.tenant == "research"]
    assert draw(TENANTS, 6, seed=2) != jobs


def test_the_picture_is_svg_with_colours_for_light_and_dark(comparison: Comparison):
    drawn = picture(comparison)

    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in drawn
    assert picture(comparison) == drawn


def test_the_table_has_a_row_for_every_tenant(comparison: Comparison):
    rows = table(comparison).splitlines()[2:]

    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [tenant.name for tenant in TENANTS]
    assert all(row.endswith("| 0 |") for row in rows)


@pytest.mark.parametrize(("most", "expected"), [(1, [0, 1]), (12, [0, 5, 10, 15]), (0, [0, 1])])
def test_ticks_are_round_and_reach_the_most(most: float, expected: list[float]):
    assert ticks(most) == expected
