"""What Prometheus and the summary are told of each virtual cluster."""

import pytest

from algorithm.gauges import sound
from tests.support.hived.harness import RACKS, HivedHarness, gang, one, racks


def numbers(world, name):
    """The value of each series of one gauge, by its labels' values."""
    gauges = world.algorithm.metrics()
    assert sound(gauges) == (list(gauges), [])
    (gauge,) = [each for each in gauges if each.name == name]
    return {tuple(value for _, value in sample.labels): sample.value for sample in gauge.samples}


@pytest.fixture
def world():
    return HivedHarness()


def test_what_is_promised_is_known_from_the_start(world):
    assert numbers(world, "guaranteed_devices") == {("a", "rack"): 8, ("b", "rack"): 6}


def test_nothing_is_shown_as_zero(world):
    for name in ("used_devices", "borrowed_devices", "bad_devices"):
        assert numbers(world, name) == {("a", "rack"): 0, ("b", "rack"): 0}
    assert numbers(world, "waiting_pods") == {("a",): 0, ("b",): 0}


def test_used_and_borrowed_are_told_apart(world):
    world.bind(*gang("g", pods=2, leafs=2), one("o", priority=-1, leafs=3), one("p", tenant="b", priority=-1))

    assert numbers(world, "used_devices") == {("a", "rack"): 4, ("b", "rack"): 0}
    assert numbers(world, "borrowed_devices") == {("a", "rack"): 3, ("b", "rack"): 1}


def test_who_borrows_without_being_promised_anything_is_shown():
    world = HivedHarness(racks(a="rack 1") + "  c: {}\n")
    world.bind(one("o", tenant="c", priority=-1, leafs=2))

    assert numbers(world, "borrowed_devices") == {("a", "rack"): 0, ("c", "rack"): 2}


def test_a_lazy_preemption_turns_used_into_borrowed(world):
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True), one("taker", leafs=2, priority=3))

    assert numbers(world, "used_devices")["a", "rack"] == 2
    assert numbers(world, "borrowed_devices")["a", "rack"] == 8


def test_what_a_preemptor_reserves_is_its_own(world):
    world.bind(*gang("o", pods=4, leafs=4, tenant="b", priority=-1))
    world.preempt(one("g", leafs=4))

    assert numbers(world, "used_devices")["a", "rack"] == 4
    assert numbers(world, "borrowed_devices")["b", "rack"] == 12


def test_bad_devices_are_those_of_bad_machines_in_promised_cells():
    world = HivedHarness(racks(a="rack 1", b="rack.host 1"))
    world.bind(one("g", leafs=4), one("h", tenant="b", leafs=4))
    machine = world.allocated["u-g-0"].node_name

    world.turn(machine, healthy=False)

    assert numbers(world, "bad_devices") == {("a", "rack"): 4, ("b", "rack"): 0}


def test_waiting_pods_and_their_devices_are_counted(world):
    pods = [*gang("g", pods=2, leafs=4), one("h", tenant="b", leafs=3)]
    world.submit(*pods)
    assert numbers(world, "waiting_pods") == {("a",): 2, ("b",): 1}
    assert numbers(world, "waiting_devices") == {("a",): 8, ("b",): 3}

    world.bind(pods[0])
    world.delete(pods[2])
    assert numbers(world, "waiting_devices") == {("a",): 4, ("b",): 0}

    world.expire(world.allocated[pods[0].uid])
    assert numbers(world, "waiting_pods") == {("a",): 2, ("b",): 0}


def test_a_pod_that_waits_in_another_form_is_counted_once(world):
    world.submit(one("g", leafs=4))
    world.submit(one("g", leafs=2))

    assert numbers(world, "waiting_devices")["a",] == 2


def test_pods_that_are_refused_do_not_wait_for_devices(world):
    world.submit(one("g", tenant="nobody"))
    guarded = HivedHarness(RACKS + "allowedNamespaces: {a: []}\n")
    guarded.submit(one("g", tenant="a"))

    assert numbers(world, "waiting_pods") == {("a",): 0, ("b",): 0}
    assert numbers(guarded, "waiting_pods") == {("a",): 0, ("b",): 0}


def test_the_summary_says_the_same(world):
    world.bind(one("g", leafs=2), one("o", priority=-1, leafs=3))
    world.submit(one("w", leafs=1))

    tenant = world.algorithm.inspect()["virtualClusters"]["a"]
    assert tenant == {"guaranteed": 8, "used": 2, "borrowed": 3, "waiting": 1, "bad": 0}


def test_a_restart_counts_the_same(world):
    world.bind(*gang("g", pods=2, leafs=2), one("o", priority=-1, leafs=3))
    world.submit(one("w", leafs=4))
    before = [numbers(world, gauge.name) for gauge in world.algorithm.metrics()]
    world.restart()

    assert [numbers(world, gauge.name) for gauge in world.algorithm.metrics()] == before


def test_a_fork_counts_for_itself(world):
    fork = world.algorithm.fork()
    world.bind(one("g", leafs=2))

    assert fork.metrics() != world.algorithm.metrics()
    assert fork.metrics() == HivedHarness().algorithm.metrics()
