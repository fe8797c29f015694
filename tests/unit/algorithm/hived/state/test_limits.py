"""What opportunistic pods may have at most."""

import pytest

from algorithm.interface import Bind, Wait
from algorithm.reasons import Code
from tests.support.hived.harness import (
    PREEMPTING,
    RACKS,
    HivedHarness,
    allocations,
    explained,
    gang,
    one,
    settings_of,
    snapshot,
)

#: 16 devices in one chain.
TWO_CHAINS = """
physicalCluster:
  cellTypes:
    new: {childCellType: a100, childCellNumber: 4, isNodeLevel: true}
    old: {childCellType: p100, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: new, cellAddress: n1}
  - {cellType: old, cellAddress: o1}
virtualClusters:
  a: {virtualCells: [{cellType: new, cellNumber: 1}]}
  b: {}
"""


def limited(text, config=RACKS):
    return HivedHarness(config + f"opportunisticLimits: {text}\n")


def opportunistic(name, **wish):
    return one(name, priority=-1, **wish)


def reason_of(answer):
    assert isinstance(answer, Wait), answer
    assert answer.reason.code is Code.BORROWING_LIMITED
    return answer.reason.text


def test_without_a_limit_they_have_whatever_is_idle():
    world = HivedHarness()

    assert len(world.bind(*gang("o", pods=4, leafs=4, priority=-1))) == 4


def test_a_limit_of_the_cluster_counts_all_tenants_together():
    world = limited("{cluster: 6}")
    world.bind(opportunistic("x", leafs=4), opportunistic("y", tenant="b", leafs=2))

    text = reason_of(world.ask(opportunistic("z", leafs=1)))

    assert "opportunistic pods may have at most 6 devices of the cluster (opportunisticLimits.cluster)" in text
    assert "which a, b have now" in text


def test_a_gang_counts_as_a_whole():
    world = limited("{cluster: 6}")

    assert "the group needs 8" in reason_of(world.ask(gang("o", pods=2, leafs=4, priority=-1)[0]))
    assert isinstance(world.ask(gang("p", pods=3, leafs=2, priority=-1)[0]), Bind)


def test_all_pods_of_a_gang_that_has_places_come_in():
    world = limited("{cluster: 6}")

    assert len(world.bind(*gang("p", pods=3, leafs=2, priority=-1))) == 3


def test_a_percentage_is_rounded_down():
    world = limited("{cluster: 30%}")
    world.bind(opportunistic("x", leafs=4))

    assert "at most 4 devices" in reason_of(world.ask(opportunistic("y", leafs=1)))


def test_a_limit_of_a_chain_leaves_the_others_open():
    world = limited("{chains: {new: 50%}}", TWO_CHAINS)
    world.bind(opportunistic("x", leafs=2, leafCellType="a100"))

    assert "of chain new (opportunisticLimits.chains.new)" in reason_of(
        world.ask(opportunistic("y", leafCellType="a100"))
    )
    assert world.bind(opportunistic("y", leafs=4)) == [("o1", "0,1,2,3")]


def test_a_limit_of_a_virtual_cluster_leaves_the_others_open():
    world = limited("{virtualClusters: {a: 2}}")
    world.bind(opportunistic("x", leafs=2))

    text = reason_of(world.ask(opportunistic("y", leafs=1)))

    assert "opportunistic pods of virtual cluster a may have at most 2 devices of the cluster" in text
    assert world.bind(opportunistic("z", tenant="b", leafs=4))


def test_a_star_is_each_virtual_cluster_that_is_not_named():
    world = limited("{virtualClusters: {'*': 1, b: 4}}")
    world.bind(opportunistic("x", leafs=1), opportunistic("y", tenant="b", leafs=4))

    assert "opportunisticLimits.virtualClusters.*" in reason_of(world.ask(opportunistic("z", leafs=1)))
    assert "opportunisticLimits.virtualClusters.b" in reason_of(world.ask(opportunistic("z2", tenant="b", leafs=1)))


def test_zero_is_none_at_all():
    assert "at most 0 devices" in reason_of(limited("{cluster: 0}").ask(opportunistic("x", leafs=1)))


def test_guaranteed_pods_are_not_limited():
    world = limited("{cluster: 0, virtualClusters: {a: 0}}")

    assert len(world.bind(*gang("g", pods=2, leafs=4))) == 2


def test_what_ends_makes_room():
    world = limited("{cluster: 4}")
    first = opportunistic("x", leafs=4)
    world.bind(first)
    reason_of(world.ask(opportunistic("y", leafs=2)))
    world.delete(world.allocated[first.uid])

    assert world.bind(opportunistic("y", leafs=2))


def test_a_reason_does_not_change_with_what_is_used():
    """kube-scheduler writes it on the pod, and tries the pod again if it changes."""
    world = limited("{cluster: 4}")
    first, second = opportunistic("x", leafs=2), opportunistic("x2", leafs=1)
    world.bind(first, second)
    before = reason_of(world.ask(opportunistic("y", leafs=3)))
    world.delete(world.allocated[second.uid])

    assert reason_of(world.ask(opportunistic("y", leafs=3))) == before


def test_people_are_told_how_much_is_used_and_by_whom():
    world = limited("{cluster: 6}")
    world.bind(opportunistic("x", leafs=4), opportunistic("y", tenant="b", leafs=1), one("g", leafs=4))
    pod = opportunistic("z", leafs=2)
    reason_of(world.ask(pod))

    lines = explained(world, pod)

    assert "the group needs 2, and 5 are used: x of a (4), y of b (1)" in lines[0]
    assert lines[1] == (
        "It would run if any one of these ended: x (without guarantee, 4 devices), "
        "y (of b, without guarantee, 1 device)."
    )


def test_a_gang_that_was_preempted_lazily_counts_but_stays():
    world = limited("{cluster: 8}")
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True), one("taker", leafs=2, priority=3))
    assert world.group("lazy").virtual is None

    assert "which a have now" in reason_of(world.ask(opportunistic("x", leafs=1)))


def test_a_preemption_takes_from_what_counts():
    world = limited("{cluster: 16}")
    world.bind(*gang("o", pods=4, leafs=4, priority=-1))
    world.preempt(one("g", leafs=4))

    assert sum(world.hive.usage.borrowed.values()) == 12
    assert world.hive.usage.used == {("a", "rack"): 4}


def test_a_restart_with_a_limit_is_the_same():
    world = limited("{cluster: 6, virtualClusters: {a: 4}}")
    world.bind(opportunistic("x", leafs=4), opportunistic("y", tenant="b", leafs=2), one("g", leafs=4))
    before, usage = allocations(world.hive), world.hive.usage
    world.restart(sorted(world.allocated, reverse=True))

    assert allocations(world.hive) == before
    assert (world.hive.usage.used, world.hive.usage.borrowed) == (usage.used, usage.borrowed)
    reason_of(world.ask(opportunistic("z", leafs=1)))


def test_a_lower_limit_after_a_restart_takes_nothing_from_those_that_run():
    world = HivedHarness()
    world.bind(*gang("o", pods=3, leafs=4, priority=-1))
    before = allocations(world.hive)

    world.restart(config=RACKS + "opportunisticLimits: {cluster: 1}\n")

    assert allocations(world.hive) == before
    assert "at most 1 devices" in reason_of(world.ask(opportunistic("z", leafs=1)))


def test_a_fork_has_the_same_limits_and_counts_for_itself():
    world = limited("{cluster: 4}")
    world.bind(opportunistic("x", leafs=4))
    fork = world.algorithm.fork()
    world.delete(world.allocated["u-x-0"])

    assert sum(fork.hive.usage.borrowed.values()) == 4
    assert not world.hive.usage.borrowed


def test_asking_whom_to_evict_meets_the_limit_too():
    world = limited("{cluster: 0}")

    reason_of(world.ask(opportunistic("x"), phase=PREEMPTING))


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("{cluster: half}", "expected a number of devices, or a percentage from 0% to 100%, not 'half'"),
        ("{cluster: 101%}", "expected a number of devices, or a percentage"),
        ("{cluster: -1}", "expected a number of devices, or a percentage"),
        ("{chains: {rock: 1}}", "opportunisticLimits.chains.rock: there is no such chain; did you mean rack?"),
        ("{virtualClusters: {c: 1}}", "opportunisticLimits.virtualClusters.c: there is no such virtual cluster"),
        ("{clusters: 1}", "unknown key clusters; did you mean cluster?"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(setting, text):
    with pytest.raises(ValueError) as caught:
        settings_of(RACKS + f"opportunisticLimits: {setting}\n")
    assert text in str(caught.value)


def test_the_old_laxness_keeps_our_own_settings():
    settings = settings_of(
        RACKS + "lax: true\nnonsense: 1\nopportunisticLimits: {cluster: 3}\nallowedNamespaces: {a: [x]}\n"
    )

    assert settings.opportunistic_limits.cluster == "3"
    assert settings.allowed_namespaces == {"a": ("x",)}


def test_asking_leaves_no_trace():
    world = limited("{cluster: 1}")
    before = snapshot(world.hive)
    pod = opportunistic("x", leafs=2)
    reason_of(world.ask(pod))
    explained(world, pod)

    assert snapshot(world.hive) == before
