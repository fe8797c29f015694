"""The experiment on small traces, and on the published one where WAGGLE_OPENB names its folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from extender.lab.fgd_study import COLUMNS, Line, Study, arrivals, columns, typical
from extender.lab.gorand import GoRandom
from extender.lab.openb import NodeLine, PodLine, TraceError, read_nodes, read_pods

NODES = [NodeLine(f"n{number}", 64_000, 1 << 18, (2, 4, 8)[number % 3], "AB"[number % 2]) for number in range(9)]
PODS = [
    PodLine(
        f"p{number:03}",
        1000 * (1 + number % 7),
        512,
        *((1, 300, ""), (1, 1000, ""), (0, 0, ""), (2, 1000, "A"))[number % 4],
    )
    for number in range(60)
]
TOTAL = sum(node.gpus for node in NODES) * 1000


def study(policy: str = "fgd", seed: int = 42) -> Study:
    return Study(NODES, PODS, policy=policy, seed=seed)


def test_pods_are_added_until_they_ask_for_enough() -> None:
    found = arrivals(PODS, TOTAL, GoRandom(42))
    asked = sum(pod.all_milli for pod in found)
    assert sorted(found[: len(PODS)]) == sorted(PODS)
    assert set(found) == set(PODS)
    assert 1.3 * TOTAL - 1000 < asked <= 1.3 * TOTAL + 7000


def test_pods_are_removed_until_they_ask_for_no_more() -> None:
    found = arrivals(PODS, TOTAL // 4, GoRandom(42))
    asked = sum(pod.all_milli for pod in found)
    assert 1.3 * TOTAL / 4 - 2000 <= asked <= 1.3 * TOTAL / 4
    assert len(set(found)) == len(found)


def test_those_that_are_left_keep_their_order() -> None:
    random = GoRandom(42)
    random.int63()
    shuffled = sorted(PODS, key=lambda pod: pod.name)
    random.shuffle(shuffled)
    first_gone = shuffled[random.below(len(shuffled))]
    found = arrivals(PODS, TOTAL // 4, GoRandom(42))
    assert found == [pod for pod in shuffled if pod in set(found)]
    assert first_gone not in found
    # A target that is asked for to the last thousandth is neither thinned nor enlarged.
    whole = [PodLine(f"p{number}", 1000, 1, 1, 1000, "") for number in range(13)]
    assert len(arrivals(whole, 10_000, GoRandom(42))) == 13
    assert len(arrivals(whole, 9_000, GoRandom(42))) == 11


def test_names_are_in_the_order_of_their_letters_before_they_are_shuffled() -> None:
    def lines(name: str) -> list[PodLine]:
        return [pod._replace(name=name.format(9970 + number)) for number, pod in enumerate(PODS)]

    in_letters, in_numbers = lines("openb-pod-{:04}"), lines("openb-pod-{:05}")
    found = arrivals(in_letters, TOTAL, GoRandom(42))
    assert found == arrivals(in_letters[::-1], TOTAL, GoRandom(42))  # 10000 before 9999, wherever the file has them
    assert [pod.name[-4:] for pod in found] != [pod.name[-4:] for pod in arrivals(in_numbers, TOTAL, GoRandom(42))]


def test_a_cluster_that_no_number_of_such_pods_fills_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.lab.fgd_study.MOST_ADDED", 50)
    with pytest.raises(TraceError, match="expected pods that ask for 2184000 thousandths of GPUs with 50 more of them"):
        arrivals(PODS, TOTAL * 40, GoRandom(42))


def test_nodes_without_gpus_are_refused() -> None:
    with pytest.raises(TraceError, match="expected nodes with GPUs, got none"):
        Study([node._replace(gpus=0) for node in NODES], PODS, policy="fgd", seed=42)


def test_more_than_a_thousand_classes_are_typical() -> None:
    pods = [PodLine(f"p{number}", number, 1, 1, 1000, "") for number in range(1001)]
    assert len(Study(NODES, pods, policy="fgd", seed=42).pods) == 54
    with pytest.raises(TraceError, match="expected at most 10000 different pods by CPU, GPUs and models, got 10001"):
        typical([PodLine("p", number, 1, 1, 1000, "") for number in range(10_001)])


def test_pods_without_gpus_end_too() -> None:
    assert len(arrivals([PodLine("p", 1, 1, 0, 0, "")], TOTAL, GoRandom(1))) == 1


@pytest.mark.parametrize("policy", ["fgd", "random", "dotprod", "clustering", "packing", "bestfit"])
def test_a_run_accounts_for_each_pod_and_repeats(policy: str) -> None:
    first, second = study(policy), study(policy)
    lines = list(first.lines())
    assert lines == list(second.lines())
    assert len(lines) == len(first.pods)
    assert lines[-1].used == first.algorithm.allocated_milli() <= TOTAL
    assert lines[-1].arrived == sum(pod.all_milli for pod in first.pods)
    placed = len(lines) - first.failed
    assert placed == sum(
        len(each["pods"]) if isinstance(each["pods"], list) else each["pods"]
        for each in first.algorithm.inspect()["nodes"].values()
    )
    found = columns(lines, first.total)
    assert all(len(each) == COLUMNS for each in found)
    assert found.allocation[100] is None or 0 < found.allocation[100] <= 100


def test_another_seed_brings_the_pods_in_another_order() -> None:
    assert [pod.name for pod in study(seed=1).pods] != [pod.name for pod in study(seed=2).pods]
    assert study(seed=1).ranks != study(seed=2).ranks


def test_typical_pods_are_counted_by_class() -> None:
    found = typical(PODS)
    assert sum(each.count for each in found) == len(PODS)
    assert len({(each.cpu_milli, each.gpu_milli, each.gpus, each.models) for each in found}) == len(found)


def test_a_column_is_the_mean_of_its_lines_or_of_those_beside_it() -> None:
    lines = [Line(100, 100, 30.0), Line(104, 100, 50.0), Line(200, 150, 10.0)]
    found = columns(lines, 1000)
    assert found.allocation[10] == 10.0
    assert found.amount[10] == 4.0
    assert found.ratio[10] == pytest.approx((3.33 + 5.56) / 2)
    assert found.allocation[9] == 10.0
    assert found.allocation[15] is None
    assert found.allocation[21] == 15.0


FOLDER = os.environ.get("WAGGLE_OPENB", "")


@pytest.mark.skipif(not FOLDER, reason="WAGGLE_OPENB names no folder with the trace")
@pytest.mark.slow
class TestPublished:
    """Alibaba's trace is not shipped; results as the paper's authors published them."""

    def study(self, policy: str, seed: int, trace: str = "default") -> Study:
        folder = Path(FOLDER)
        with (folder / "openb_node_list_gpu_node.csv").open() as file:
            nodes = read_nodes(file, file.name)
        with (folder / f"openb_pod_list_{trace}.csv").open() as file:
            return Study(nodes, read_pods(file, file.name), policy=policy, seed=seed)

    @pytest.mark.parametrize(
        ("trace", "seed", "names", "ranks"),
        [
            ("default", 42, "80e1e09a8ef1", "f88c99334d21"),
            ("default", 45, "eeaaba4003fe", "c68b8099809c"),
            ("gpushare40", 42, "d5d19c653868", "7ffa59eac616"),
            ("multigpu20", 42, "91abc3649367", "d5bd44019135"),
        ],
    )
    def test_the_pods_come_in_the_published_order(self, trace: str, seed: int, names: str, ranks: str) -> None:
        made = self.study("fgd", seed, trace)
        assert digest("\n".join(pod.name for pod in made.pods)) == names
        assert digest(",".join(map(str, made.ranks))) == ranks

    @pytest.mark.parametrize(
        ("policy", "seed", "allocation"),
        [
            ("fgd", 42, 95.14),
            ("fgd", 45, 95.38),
            ("bestfit", 46, 93.00),
            ("packing", 45, 92.58),
            ("clustering", 45, 92.75),
            ("dotprod", 48, 91.00),
        ],
    )
    def test_the_published_allocation(self, policy: str, seed: int, allocation: float) -> None:
        made = self.study(policy, seed)
        assert columns(list(made.lines()), made.total).allocation[100] == allocation

    def test_the_published_fragmentation(self) -> None:
        made = self.study("fgd", 42)
        found = columns(list(made.lines()), made.total)
        shown = (0, 25, 50, 75, 90, 95, 100, 130)
        assert [found.amount[k] for k in shown] == [13.88, 11.37, 8.99, 6.49, 4.97, 4.72, 4.83, 4.69]
        ratios = [13.919, 15.152, 17.965, 26.000, 49.654, 93.193, 99.570, 99.580]
        assert [round(found.ratio[k] or 0, 3) for k in shown] == ratios
        assert made.failed == 2532


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
