"""Whose a group's name is, and who may use a virtual cluster."""

import json

import msgspec
import pytest

from algorithm.hived.formats.bindinfo import BIND_INFO
from algorithm.hived.state.lazy_preemption import LAZILY_PREEMPTED
from algorithm.interface import Bind, InvalidArgument, PodRefused
from algorithm.model import pairs
from tests.support.hived.audit import audit
from tests.support.hived.harness import (
    RACKS,
    HivedHarness,
    allocations,
    explained,
    gang,
    in_any_order,
    one,
    settings_of,
    snapshot,
)

PER_TENANT = RACKS + "groupNamesPer: [virtualCluster]\n"
PER_NAMESPACE = RACKS + "groupNamesPer: [namespace]\n"
PER_BOTH = RACKS + "groupNamesPer: [virtualCluster, namespace]\n"
GUARDED = RACKS + "allowedNamespaces: {a: [team-a, 'lab-?'], b: []}\n"


def of(namespace, *pods):
    """The same pods in another namespace."""
    return [msgspec.structs.replace(each, namespace=namespace, uid=f"{namespace}-{each.uid}") for each in pods]


def refusal(world, each):
    with pytest.raises(PodRefused) as caught:
        world.ask(each)
    return caught.value.reason.text


# -- names of groups --------------------------------------------------------------------------------------------------


def test_without_the_switch_a_name_is_one_of_the_whole_cluster():
    world = HivedHarness()
    world.bind(one("train", tenant="a"))

    (other,) = of("other", one("train", tenant="b"))

    assert "affinity group train exists with virtualCluster 'a'" in refusal(world, other)


def test_two_virtual_clusters_use_the_same_name():
    world = HivedHarness(PER_TENANT)
    world.bind(*gang("train", tenant="a", pods=2, leafs=4))
    world.bind(*of("other", *gang("train", tenant="b", pods=1, leafs=4)))

    assert {group.shown for group in world.hive.groups.values()} == {"train"}
    assert sorted(world.hive.groups) == ["a/train", "b/train"]


def test_two_namespaces_of_a_virtual_cluster_use_the_same_name():
    world = HivedHarness(PER_NAMESPACE)
    wish = gang("train", tenant="a", pods=2, leafs=2)
    world.bind(*of("one", *wish), *of("two", *wish))

    assert [len(list(world.group(f"{name}/train").members())) for name in ("one", "two")] == [2, 2]


def test_nobody_takes_a_place_in_the_gang_of_another_namespace():
    """Without the switch, a pod of any namespace with the same wish has the second place."""
    wish = gang("train", tenant="a", pods=2, leafs=4)
    open_world, guarded = HivedHarness(), HivedHarness(PER_NAMESPACE)
    for world in (open_world, guarded):
        world.bind(of("owner", *wish)[0])
        (intruder,) = of("intruder", wish[1])
        world.bind(intruder) if world is open_world else world.ask(intruder)

    assert len(list(open_world.group("train").members())) == 2
    assert "intruder/train" not in guarded.hive.groups
    assert guarded.bind(of("owner", *wish)[1])


def test_both_scopes_together():
    world = HivedHarness(PER_BOTH)
    world.bind(*of("ns", one("g", tenant="a")), *of("ns", one("g", tenant="b")), *of("other", one("g", tenant="b")))

    assert sorted(world.hive.groups) == ["a/ns/g", "b/ns/g", "b/other/g"]


def test_slashes_in_a_name_do_not_make_it_another_ones():
    world = HivedHarness(PER_NAMESPACE)
    (first,), (second,) = of("x", one("y/g", leafs=4)), of("y", one("g", leafs=4))
    world.bind(first, second)

    assert sorted(world.hive.groups) == ["x/y/g", "y/g"]


def test_a_pod_alone_has_its_scope_too():
    world = HivedHarness(PER_TENANT)
    (pod,) = gang("ignored")
    wish = {"virtualCluster": "a", "leafCellNumber": 1}
    pod = msgspec.structs.replace(pod, annotations=pairs({pod.annotations[0][0]: json.dumps(wish)}))
    world.bind(pod)

    assert list(world.hive.groups) == ["a/ns/ignored-0"]


def test_a_virtual_cluster_with_a_slash_could_be_mistaken_and_is_refused():
    with pytest.raises(ValueError, match="no virtual cluster may have a slash in its name: a/b"):
        settings_of(PER_TENANT.replace("  a:\n", "  a/b:\n"))


def test_there_are_two_scopes():
    with pytest.raises(ValueError, match="groupNamesPer"):
        settings_of(RACKS + "groupNamesPer: [tenant]\n")


def test_what_is_written_on_pods_does_not_change():
    written = []
    for config in (RACKS, PER_BOTH):
        world = HivedHarness(config)
        pods = gang("train", pods=2, leafs=2)
        world.bind(*pods)
        written.append([world.allocated[each.uid].annotations for each in pods])

    assert written[0] == written[1]


def test_the_pages_show_the_original_name_and_the_path():
    world = HivedHarness(PER_TENANT)
    world.bind(one("train", tenant="a"), *of("other", one("train", tenant="b"), one("eval", tenant="b")))

    items = json.loads(b"".join(world.algorithm.page("affinitygroups/")))["items"]

    assert [each["metadata"] for each in items] == [
        {"name": "train", "path": "/v1/inspect/affinitygroups/a/train"},
        {"name": "eval", "path": "/v1/inspect/affinitygroups/b/eval"},
        {"name": "train", "path": "/v1/inspect/affinitygroups/b/train"},
    ]
    assert world.algorithm.page("affinitygroups/b/train")["status"]["vc"] == "b"
    assert world.algorithm.page("affinitygroups/eval")["status"]["vc"] == "b"


def test_a_name_that_several_groups_have_is_asked_back():
    world = HivedHarness(PER_TENANT)
    world.bind(one("train", tenant="a"), *of("other", one("train", tenant="b")))

    with pytest.raises(InvalidArgument, match="several affinity groups have that name: a/train, b/train"):
        world.algorithm.page("affinitygroups/train")


def test_without_the_switch_there_is_no_path():
    world = HivedHarness()
    world.bind(one("train"))

    assert world.algorithm.page("affinitygroups/train")["metadata"] == {"name": "train"}


@pytest.mark.parametrize("config", [PER_TENANT, PER_NAMESPACE, PER_BOTH])
def test_a_restart_keeps_scoped_groups_apart(config):
    world = HivedHarness(config)
    world.bind(*of("one", *gang("g", tenant="a", pods=2, leafs=4)), *of("two", *gang("g", tenant="b", pods=1, leafs=4)))
    world.bind(*of("two", one("o", tenant="b", priority=-1, leafs=2)))
    before = allocations(world.hive)

    for order in (sorted(world.allocated), sorted(world.allocated, reverse=True)):
        world.restart(order)
        assert allocations(world.hive) == before
    assert not world.algorithm.unrecoverable_pods


@pytest.mark.parametrize("backwards", [False, True])
def test_switched_off_at_a_restart_gangs_of_one_name_stay_apart(backwards):
    """One of them has the name, the other its full path; no device is lost, none has two users."""
    world = HivedHarness(PER_TENANT)
    world.bind(*gang("g", tenant="a", pods=2, leafs=4), *of("two", *gang("g", tenant="b", pods=1, leafs=4)))
    before = sorted(tuple(value[1:]) for value in map(list, allocations(world.hive).values()))
    world.restart(sorted(world.allocated, reverse=backwards), config=RACKS)

    assert not world.algorithm.unrecoverable_pods
    assert sorted(world.hive.groups) == ["b/two/g", "g"], "of equal age, ns comes first"
    assert sorted(tuple(value[1:]) for value in map(list, allocations(world.hive).values())) == before
    world.delete(*list(world.allocated.values()))
    assert not world.hive.groups


def test_pods_that_come_later_are_not_set_apart():
    world = HivedHarness()
    world.bind(one("g", leafs=4))
    twin = HivedHarness()
    twin.bind(one("x", leafs=4))
    twin.bind(*of("other", one("g", leafs=4)))
    world.found(next(each for each in twin.allocated.values() if each.namespace == "other"))

    assert list(world.algorithm.unrecoverable_pods) == ["other-u-g-0"]


def test_a_lazy_preemption_is_remembered_by_scoped_names():
    world = HivedHarness(PER_TENANT)
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True), one("taker", leafs=2, priority=3))
    taker = world.allocated["u-taker-0"]
    assert [lost["group"] for lost in json.loads(taker.annotation(LAZILY_PREEMPTED))] == ["a/lazy"]
    before = allocations(world.hive)

    world.restart()

    assert allocations(world.hive) == before


def test_a_fork_reads_names_as_its_original():
    world = HivedHarness(PER_BOTH)
    world.bind(one("g", tenant="a"))
    fork = world.algorithm.fork()

    audit(fork.hive)
    assert snapshot(fork.hive) == snapshot(world.hive)
    assert fork.page("affinitygroups/g") == world.algorithm.page("affinitygroups/g")


# -- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", ["team-a", "lab-1"])
def test_a_namespace_of_the_list_may(namespace):
    world = HivedHarness(GUARDED)

    assert world.bind(*of(namespace, one("g", tenant="a")))


@pytest.mark.parametrize("namespace", ["team-b", "team-a-2", "lab-10", "TEAM-A"])
def test_others_may_not_and_are_told_who_may(namespace):
    world = HivedHarness(GUARDED)
    text = f"namespace {namespace} may not use virtual cluster a; allowed: lab-?, team-a"

    (pod,) = of(namespace, one("g", tenant="a"))

    assert text in refusal(world, pod)
    assert explained(world, pod) == [text]


def test_an_empty_list_is_nobody():
    assert "may not use virtual cluster b; allowed: no namespace" in refusal(
        HivedHarness(GUARDED), one("g", tenant="b")
    )


def test_a_virtual_cluster_that_is_not_named_is_open():
    world = HivedHarness(RACKS + "allowedNamespaces: {b: [team-b]}\n")

    assert world.bind(one("g", tenant="a"))


def test_a_star_is_all_that_are_not_named():
    world = HivedHarness(RACKS + "allowedNamespaces: {b: ['*'], '*': [admin]}\n")
    world.bind(one("g", tenant="b"), *of("admin", one("h", tenant="a")))

    assert "namespace ns may not use virtual cluster a; allowed: admin" in refusal(world, one("i", tenant="a"))


def test_opportunistic_pods_are_asked_too():
    assert "may not use" in refusal(HivedHarness(GUARDED), one("g", tenant="b", priority=-1))


def test_a_place_in_a_gang_that_runs_is_no_way_in():
    world = HivedHarness()
    first, second = gang("g", tenant="a", pods=2)
    world.bind(first)
    world.submit(second)
    world.restart(config=GUARDED)

    assert "namespace ns may not use virtual cluster a" in refusal(world, second)


def test_what_is_bound_stays_whatever_the_rules_are_now():
    world = HivedHarness()
    world.bind(*gang("g", tenant="a", pods=2, leafs=4), one("o", tenant="b", priority=-1))
    before = allocations(world.hive)

    world.restart(config=GUARDED)

    assert allocations(world.hive) == before
    assert not world.algorithm.unrecoverable_pods
    world.delete(*list(world.allocated.values()))
    assert in_any_order(snapshot(world.hive)) == in_any_order(snapshot(HivedHarness(GUARDED).hive))


def test_a_refused_pod_leaves_no_trace_and_can_go():
    world = HivedHarness(GUARDED)
    before = snapshot(world.hive)
    pod = one("g", tenant="b")
    refusal(world, pod)
    world.delete(pod)

    assert snapshot(world.hive) == before
    assert world.algorithm.inspect()["virtualClusters"]["b"]["waiting"] == 0


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("allowedNamespaces: {aa: [x]}", "allowedNamespaces.aa: there is no such virtual cluster; did you mean a?"),
        ("allowedNamespaces: {research: [x]}", "there is no such virtual cluster; there are *, a, b"),
        ("allowedNamespaces: [x]", "allowedNamespaces"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(setting, text):
    with pytest.raises(ValueError) as caught:
        settings_of(RACKS + setting + "\n")
    assert text in str(caught.value)


def test_a_pod_that_is_not_ours_is_nobodys():
    """It has no wish, so there is no name and no rule."""
    world = HivedHarness(GUARDED)
    stranger = msgspec.structs.replace(one("x"), annotations=(), node_name="m1")
    world.algorithm.add_allocated_pod(stranger)
    world.algorithm.delete_allocated_pod(stranger)

    assert not world.hive.groups


def test_places_do_not_depend_on_whose_names_are():
    answers = []
    for config in (RACKS, PER_BOTH, RACKS + "allowedNamespaces: {'*': [ns]}\n"):
        world, found = HivedHarness(config), []
        for number in range(14):
            each = one(f"g{number}", tenant="ab"[number % 2], leafs=1 + number % 4, priority=number % 3 - 1)
            answer = world.ask(each)
            if isinstance(answer, Bind):
                found.append((each.name, dict(answer.annotations)[BIND_INFO]))
                world.take(each, answer)
        answers.append(found)

    assert answers[0] == answers[1] == answers[2]
