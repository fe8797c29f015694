"""What would have been different: what happened, beside simulations with the recorded settings and with others."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from msgspec.structs import replace

from extender.lab.generator import Options, generate
from extender.lab.results import JobResult, Run
from extender.lab.run.simulation import RunOptions
from extender.lab.workload import CPU, GPU, Job, MachineNode, Workload
from extender.policies import policy_of
from extender.recording.records import policy_of as policy_of_header
from extender.replay.comparing import (
    MOST_DIFFERENCES,
    closeness,
    difference_text,
    differences,
    remarks,
    results,
    runs_of,
    short,
    table,
)
from extender.replay.counterfactual import Counterfactual, CounterfactualError, Other, counterfactual
from extender.replay.history import recorded_history, settings_text
from extender.replay.logs import Log, open_log
from extender.replay.timeline import timeline
from extender.scheduling.events import NodeSeen, Synced, Ticked
from extender.settings import parse
from tests.support.engine.scripted_log import ScriptedLog, gpu_node, gpu_pod, two_nodes
from tests.support.engine.simulated_log import simulated_log
from tests.support.installed import install

DAY = 86_400.0
_CELLS = {
    "host": {"childCellType": "gpu", "childCellNumber": 8, "isNodeLevel": True},
    "rack": {"childCellType": "host", "childCellNumber": 2},
}


def hived(*tenants: str, hosts: int = 4) -> str:
    """The settings of HiveD: racks of two hosts, a host for each tenant."""
    racks = [
        {"cellType": "rack", "cellChildren": [{"cellAddress": f"n{first}"}, {"cellAddress": f"n{first + 1}"}]}
        for first in range(0, hosts, 2)
    ]
    promised = {name: {"virtualCells": [{"cellType": "rack.host", "cellNumber": 1}]} for name in tenants}
    physical = {"cellTypes": _CELLS, "physicalCells": racks}
    settings = {"physicalCluster": physical, "virtualClusters": promised}
    return yaml.safe_dump({"algorithm": {"name": "hived", "settings": settings}})


def gangs(tenants: int = 2, number: int = 6) -> Workload:
    """Gangs of two whole machines of four, each for ten minutes, one every five minutes; then one that is too large."""
    nodes = tuple(MachineNode(f"n{at}", {CPU: 64_000, GPU: 8000}) for at in range(4))
    jobs = [
        Job(f"g{at}", 300.0 * at, {CPU: 1000, GPU: 8000}, 600.0, 2, True, priority=-1, tenant=f"t{at % tenants}")
        for at in range(number)
    ]
    jobs.append(Job("large", 300.0 * number, {CPU: 1000, GPU: 8000}, 600.0, 5, True, priority=0, tenant="t0"))
    return Workload("gangs", tuple(jobs), nodes)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Run]:
    """A day of four nodes with three times as many jobs as they have room for, under packing."""
    path = Path(tmp_path_factory.mktemp("log")) / "busy.log"
    workload = generate("philly", Options(nodes=4, days=1.0, load=3.0, tenants=3, seed=4, spot=0.3))
    run = simulated_log(path, workload, RunOptions(algorithm="packing", horizon=DAY))
    return open_log(path), run


@pytest.fixture(scope="module")
def made(busy: tuple[Log, Run]) -> Counterfactual:
    return counterfactual(busy[0], Other("fgd"))


# -- how good it is -------------------------------------------------------------------------------------------


def test_the_recording_has_the_jobs_and_what_became_of_them(busy: tuple[Log, Run]) -> None:
    log, run = busy
    recorded = recorded_history(log)

    def fates(jobs: object) -> list[tuple[object, ...]]:
        return [(job.arrival, job.start, job.evictions) for job in jobs]  # type: ignore[attr-defined]

    assert len(recorded.jobs) == len(run.jobs)
    for (arrival, start, evictions), (was, began, broke) in zip(fates(recorded.jobs), fates(run.jobs), strict=True):
        assert (arrival, evictions) == (pytest.approx(was, abs=0.01), broke)
        assert start == (None if began is None else pytest.approx(began, abs=0.01))


def test_the_simulation_with_the_recorded_settings_is_what_happened(made: Counterfactual) -> None:
    number = len(made.recorded.jobs)
    assert f"agrees for {number} of {number} jobs (100 %)" in closeness(made)
    assert made.baseline.measures.evictions == made.recorded.measures.evictions > 0
    assert made.baseline.measures.gpu_allocation == pytest.approx(made.recorded.measures.gpu_allocation, abs=1e-4)
    assert made.baseline.measures.lost_gpu_milli_seconds == pytest.approx(
        made.recorded.measures.lost_gpu_milli_seconds, rel=1e-4
    )


@pytest.mark.parametrize(
    ("horizon", "within", "agrees"),
    [(100.0, "1", False), (450.0, "4.5", False), (900.0, "9", True), (5000.0, "10", True)],
)
def test_how_close_two_times_must_be_fits_the_length_of_the_recording(
    made: Counterfactual, horizon: float, within: str, agrees: bool
) -> None:
    then = JobResult(name="j", arrival=0.0, start=0.0)
    found = made._replace(
        recorded=replace(made.recorded, jobs=(then,)),
        baseline=replace(made.baseline, jobs=(replace(then, start=5.0),)),
        horizon=horizon,
    )
    said = closeness(found)
    assert f"agrees for {int(agrees)} of 1 jobs" in said
    assert f"within {within} s or a tenth" in said
    assert ("That is too few to rely on the last column." in said) is not agrees
    assert ("A longer recording helps" in said) is (not agrees and horizon < 600)


def test_hived_is_what_happened_and_packing_gets_its_gangs_priorities_and_tenants(tmp_path: Path) -> None:
    settings = hived("t0", "t1")
    simulated_log(tmp_path / "h.log", gangs(), RunOptions(algorithm="hived", settings=settings, horizon=4000.0))
    found = counterfactual(open_log(tmp_path / "h.log"), Other("packing"))

    assert "agrees for 7 of 7 jobs (100 %)" in closeness(found)
    assert [(job.tenant, job.gang, job.pods, job.priority) for job in found.other.jobs][::6] == [
        ("t0", True, 2, -1),
        ("t0", True, 5, 0),
    ]
    assert found.other.jobs[6].code == "GangDoesNotFit"
    assert found.recorded.jobs[6].code == "CellsExhausted"
    assert any(each.startswith("pods of hived were translated for packing") for each in found.changes)


def test_packing_is_translated_for_hived_with_its_settings(tmp_path: Path) -> None:
    simulated_log(tmp_path / "p.log", gangs(), RunOptions(algorithm="packing", horizon=4000.0))
    found = counterfactual(open_log(tmp_path / "p.log"), Other("", hived("t0", "t1"), "hived.yaml"))

    assert found.other.name == "hived"
    assert [job.start is not None for job in found.other.jobs] == [True] * 6 + [False]
    assert found.other.jobs[6].code == "CellsExhausted"


def test_other_settings_of_the_same_algorithm_keep_the_pods_as_they_were(busy: tuple[Log, Run]) -> None:
    text = "algorithm: {name: packing, settings: {strategy: spread}}"
    found = counterfactual(busy[0], Other("", text, "spread.yaml"))

    assert (found.other.name, found.changes) == ("spread.yaml", ())
    assert [stay.node for stay in found.other.stays] != [stay.node for stay in found.baseline.stays]


def test_a_failure_of_the_algorithm_names_the_pod_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = two_nodes().write(tmp_path / "two.log")
    install(tmp_path, monkeypatch, raising="tests.support.lab.plugins:RAISING")
    found = counterfactual(open_log(log), Other("raising"))

    (said,) = [each for each in found.other.remarks if "the algorithm failed" in each]
    assert re.search(r"in schedule \(pod default/[abc]-0\): ", said), said


def test_pods_that_ran_when_the_recording_began_stay_where_they_were(tmp_path: Path) -> None:
    log = ScriptedLog()
    for at, name in enumerate(("n1", "n2")):
        log.at(100.0, NodeSeen(gpu_node(name)))
        log.see(100.0, gpu_pod(f"old{at}", 3).placed(name))
    log.at(100.0, Synced())
    log.see(110.0, gpu_pod("new", 2))
    assert log.place(110.0, gpu_pod("new", 2), "n1", "n2") == ""
    log.end(160.0, gpu_pod("old0", 3))
    log.place(160.0, gpu_pod("new", 2), "n1", "n2")
    log.at(400.0, Ticked())
    found = counterfactual(open_log(log.write(tmp_path / "old.log")), Other("fgd"))

    for run in runs_of(found):
        assert [(stay.node, stay.start) for stay in run.stays if stay.job == "default/old1"] == [("n2", 0.0)]
        assert {job.name: job.start for job in run.jobs}["default/new"] == pytest.approx(60.0, abs=0.1)


# -- what is shown --------------------------------------------------------------------------------------------


def test_the_table_has_three_columns_for_each_measure(made: Counterfactual) -> None:
    rows = {row[0].strip(): row[1:] for row in table(made)}

    assert rows[""] == ("", "simulated", "simulated")
    assert {"waiting time p50 / p90 / p99", "tenant-1", "tenant-2", "tenant-3", "GPUs allocated", "evictions"} <= set(
        rows
    )
    assert rows["evictions"] == tuple(str(run.measures.evictions) for run in runs_of(made))
    assert rows["never started"][0] == rows["never started"][1] != "0"
    assert all(len(row) == 4 for row in table(made))


def test_the_largest_differences_are_named_with_both_reasons(made: Counterfactual) -> None:
    found = differences(made)
    assert 0 < len(found) <= MOST_DIFFERENCES
    assert [abs(each.longer) for each in found] == sorted((abs(each.longer) for each in found), reverse=True)
    text = difference_text(found[0], made)
    assert text.startswith(found[0].other.name)
    assert ": as recorded, and in its simulation: " in text
    assert "; fgd: " in text
    assert len(text) < 800


def test_a_job_that_only_one_of_them_evicts_is_a_difference(made: Counterfactual) -> None:
    *others, last = made.baseline.jobs
    evicted = replace(made.baseline, jobs=(*others, replace(last, evictions=last.evictions + 2)))
    [found] = differences(made._replace(other=evicted))
    assert (found.other.name, found.longer) == (last.name, 0.0)


def test_results_are_those_of_a_simulation(made: Counterfactual) -> None:
    found = results(made)
    assert found.release
    gpus = sum(node.capacity["gpu"] for node in made.workload.nodes)
    assert (found.gpu_milli, found.cpu_milli > 0) == (gpus, True)
    assert gpus > 0
    assert [run.name for run in found.runs] == ["as recorded", "recorded settings", "fgd"]
    assert any("tolerations of pods are not in a recording" in each for each in found.remarks)
    assert list(found.remarks) == list(remarks(made))


def test_names_with_controls_and_markup_leave_the_timeline_a_picture() -> None:
    text = timeline([], 10.0, "\x1b[31m<script>\x00")
    assert ElementTree.fromstring(text).findtext("{http://www.w3.org/2000/svg}title") == r"\x1b[31m<script>\x00"


def test_the_timeline_is_one_picture_with_labelled_axes_for_light_and_dark(made: Counterfactual) -> None:
    text = timeline(runs_of(made), made.horizon, "busy.log")
    words = [each.text for each in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]

    assert {"busy.log", "tenant-1", "tenant-3", "fgd: GPUs by tenant", "pods that wait", "6h00m"} <= set(words)
    assert "prefers-color-scheme: dark" in text
    assert not any(each in text for each in ("http://www.w3.org/1999/xlink", "<script", "href", "url("))


def test_names_in_the_timeline_are_escaped_and_its_size_has_a_bound(made: Counterfactual) -> None:
    named = [replace(job, tenant=f"<{number}&>" * 9) for number, job in enumerate(made.recorded.jobs)]
    runs = [replace(made.recorded, jobs=tuple(named), name="<script>")] * 3
    text = timeline(runs, made.horizon, "x")

    ElementTree.fromstring(text)
    assert "<script>" not in text
    assert len(text) < 400_000


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0.0s"), (9.94, "9.9s"), (75.0, "1m15s"), (3600.0, "1h00m"), (12_000.0, "3h20m")]
)
def test_times_as_people_read_them(seconds: float, text: str) -> None:
    assert short(seconds) == text


# -- settings, and bad input ----------------------------------------------------------------------------------


def test_the_recorded_settings_are_a_configuration_of_waggle(busy: tuple[Log, Run]) -> None:
    parsed = parse(settings_text(busy[0]), Path("settings"))
    assert (parsed.algorithm.name, policy_of(parsed).lease) == ("packing", policy_of_header(busy[0].header).lease)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Other("pakcing"), "there is no algorithm 'pakcing'; there are: .*packing; did you mean packing"),
        (Other(), "expected --algorithm, --settings, or both"),
        (Other("packing"), "packing was recorded; name other settings of it by --settings"),
        (Other("hived"), "--algorithm hived: hived needs settings of its own"),
        (Other("", "a: [", "x.yaml"), "x.yaml: expected the configuration of a Waggle"),
        (Other("", "[1, 2]", "x.yaml"), "x.yaml: expected the configuration of a Waggle"),
        (Other("", "algorithm: {name: packing, settings: {strategy: up}}", "x.yaml"), "x.yaml: .*strategy"),
        (Other("fgd", "algorithm: {name: packing}", "x.yaml"), "--algorithm fgd: x.yaml has the settings of packing"),
    ],
)
def test_what_cannot_be_compared_is_refused(other: Other, said: str, tmp_path: Path) -> None:
    log = open_log(two_nodes().write(tmp_path / "two.log"))
    with pytest.raises(CounterfactualError, match=said):
        counterfactual(log, other)
