"""Pods whose records say nothing about the rest of their gang: each of them keeps its devices, in whatever order."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from algorithm.decisions import in_parts, shortened
from algorithm.hived.formats.allocation import Place
from algorithm.hived.formats.bindinfo import BIND_INFO, LONGEST, SHARED, own_place, read
from algorithm.model import Pod
from tests.support.hived.harness import RACKS, HivedHarness, allocations, gang, one, racks, state
from tests.unit.algorithm.hived.formats.test_bindinfo import ORIGINAL

RELEASING = "obeyGangRelease: true\n"


def with_parts(pod: Pod, parts: dict[str, str]) -> Pod:
    pairs = {name: text for name, text in pod.annotations if name != BIND_INFO} | parts
    return msgspec.structs.replace(pod, annotations=tuple(sorted(pairs.items())))


def short(pod: Pod) -> Pod:
    return with_parts(pod, shortened(BIND_INFO, own_place(pod.annotation(BIND_INFO) or "")))


def shared(pod: Pod) -> Pod:
    return with_parts(pod, in_parts(BIND_INFO, *SHARED.split(pod.annotation(BIND_INFO) or "")))


def running(config: str = RACKS, *, waiting: int = 0) -> HivedHarness:
    """A gang of three over two racks; `waiting` of its pods are not bound yet."""
    world = HivedHarness(config)
    world.bind(*gang("g", pods=3, leafs=2, lazyPreemptionEnable=True)[: 3 - waiting])
    return world


def test_a_text_in_two_parts_says_the_same() -> None:
    world = running(waiting=1)
    known = state(world.restarted(list(world.allocated)).algorithm)
    world.allocated = {uid: shared(pod) for uid, pod in world.allocated.items()}
    assert state(world.restarted(list(world.allocated)).algorithm) == known


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_pod_keeps_its_devices_in_whatever_order_they_are_found(number: int) -> None:
    world = running()
    known = allocations(world.hive)
    uids = list(world.allocated)
    for uid in uids[:number]:
        world.allocated[uid] = short(world.allocated[uid])
    found = [world.restarted(order) for order in itertools.permutations(uids)]
    assert not any(each.algorithm.unrecoverable_pods for each in found)
    first = state(found[0].algorithm)
    assert all(state(each.algorithm) == first for each in found)
    [(_, *_, devices)], [(_, *_, before)] = allocations(found[0].hive).values(), known.values()
    assert devices == before


@pytest.mark.parametrize("config", [RACKS, RACKS + RELEASING, RACKS + "promoteLazilyPreempted: true\n"])
def test_they_keep_them_also_if_they_are_found_later(config: str) -> None:
    world = running(config)
    before = sorted(device.address for device, _ in world.group("g").leafs())
    world.allocated = {uid: short(pod) for uid, pod in world.allocated.items()}
    world.restart(late=list(world.allocated)[1:])
    assert not world.algorithm.unrecoverable_pods
    assert sorted(device.address for device, _ in world.group("g").leafs()) == before
    world.delete(*world.allocated.values())
    assert not world.hive.groups


def test_nobody_else_gets_their_devices() -> None:
    world = HivedHarness(racks(a="rack 2"))
    world.bind(*gang("g", pods=4, leafs=4))
    world.allocated = {uid: short(pod) for uid, pod in world.allocated.items()}
    world.restart()
    world.submit(other := one("other", priority=-1))
    assert not hasattr(world.ask(other), "node"), "all devices are in use"


def test_as_long_as_one_pod_says_so_places_are_kept_for_those_to_come() -> None:
    world = running(waiting=1)
    places = world.group("g").places
    first, second = world.allocated
    world.allocated[first] = short(world.allocated[first])
    world.restart([first, second])
    assert world.group("g").places == places
    assert [each and each.uid for each in world.group("g").slots[2]].count(None) == 1


def test_a_gang_of_which_every_pod_is_shortened_keeps_no_places_for_those_to_come() -> None:
    world = running(waiting=1)
    world.allocated = {uid: short(pod) for uid, pod in world.allocated.items()}
    world.restart()
    assert len(world.group("g").places[2]) == 2


def test_another_tenants_pod_has_no_place_in_the_gang() -> None:
    world = running(waiting=2)
    [mine] = world.allocated.values()
    world.bind(*gang("g2", tenant="b", leafs=1))
    text = world.allocated["u-g2-0"].annotation(BIND_INFO)
    spec = dict(mine.annotations)["hivedscheduler.microsoft.com/pod-scheduling-spec"].replace('"a"', '"b"')
    node = world.allocated["u-g2-0"].node_name
    world.delete(world.allocated["u-g2-0"])
    thief = gang("thief")[0].placed(node, (("hivedscheduler.microsoft.com/pod-scheduling-spec", spec),))
    world.found(short(with_parts(thief, {BIND_INFO: text or ""})))
    assert list(world.algorithm.inspect()["strangers"]) == ["ns/thief-0"]


def test_what_is_left_of_a_text_is_the_pods_own_place() -> None:
    left = read(own_place(ORIGINAL))
    assert left.places == ((4, (Place("box-f", (0, 1, 2, 3), ("t4-box",) * 4),)),)
    assert (left.node, left.indices, left.chain) == ("box-f", (0, 1, 2, 3), "t4-box")


@pytest.mark.parametrize(
    "text",
    [
        ORIGINAL.replace("physicalLeafCellIndices", "physicalGpuIndices").replace("leafCellIsolation", "gpuIsolation"),
        ORIGINAL.replace("- box-f", '- "box-f"').replace("physicalNode: box-f", 'physicalNode: "box-f"'),
        ORIGINAL.replace("physicalNode: box-f", "physicalNode: 'box-f'"),
        f"{ORIGINAL[ORIGINAL.index('affinity') :]}{ORIGINAL[: ORIGINAL.index('affinity')]}",
    ],
)
def test_other_forms_are_understood(text: str) -> None:
    assert read(own_place(text)) == read(own_place(ORIGINAL))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "node: box-f",
        ORIGINAL.replace("node: box-f", "node: box-g", 1),
        "node: " + "x" * 20_000 + ORIGINAL,
        ORIGINAL + " " * LONGEST,
        "# not as schedulers write it\n" * 2000 + ORIGINAL,
    ],
)
def test_of_a_text_that_names_no_place_of_the_pod_nothing_is_left(text: str) -> None:
    assert own_place(text) == ""


def test_the_longest_text_is_not_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counting(text: str, **_: int) -> object:
        seen.append(len(text))
        return load(text)

    from algorithm.hived.formats import bindinfo, bindlines
    from algorithm.hived.formats.plainyaml import load

    monkeypatch.setattr(bindinfo, "load", counting)
    lines = bindlines.read
    monkeypatch.setattr(bindlines, "read", lambda text: (seen.append(len(text)), lines(text))[1])
    places = "".join(f"  - physicalNode: m{n}\n    physicalLeafCellIndices:\n    - 0\n" for n in range(4000))
    head = "node: m3999\nleafCellIsolation:\n- 0\ncellChain: c\n"
    left = own_place(f"{head}affinityGroupBindInfo:\n- podPlacements:\n{places}")
    assert read(left).node == "m3999"
    assert max(seen) < 1000
