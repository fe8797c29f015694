"""A failure is made shorter, and shown as a test that fails by itself, and as a log that `waggle replay` opens."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from algorithm.conformance.calls import AddNode, Ask, FoundBound, NewLife, Submit, decode, encode
from algorithm.conformance.catalogue import CHECKS
from algorithm.conformance.harness import ContractBroken
from algorithm.conformance.judges import JUDGES
from algorithm.conformance.logs import write_logs
from algorithm.conformance.printed import as_test
from algorithm.conformance.report import as_json, as_junit, as_text
from algorithm.conformance.results import Report, Request, Result
from algorithm.conformance.session import opted_out, run
from algorithm.conformance.shrink import shortened
from algorithm.conformance.single import SINGLE
from algorithm.interface import Phase
from algorithm.model import Node, Pod
from extender.operate.conformance_log import events_of
from extender.operate.replay_check import SAME, check
from extender.recording.log import open_log
from extender.scheduling.events import NodeSeen, Synced

FAULTY = "tests.support.conformance.faulty"


@pytest.fixture(scope="module")
def report() -> Report:
    return run(
        Request(
            plugin=f"{FAULTY}:IGNORES_THE_OFFER",
            only=("only-offered-nodes", "prints-nothing"),
            lives=8,
            settings={"slots": 2},
        )
    )


def failure(report: Report) -> Result:
    return next(each for each in report.results if each.status == "failed")


def test_each_check_has_one_that_judges() -> None:
    assert {check.name for check in CHECKS} == {*JUDGES, *SINGLE}
    assert not JUDGES.keys() & SINGLE.keys()


@pytest.mark.slow
def test_a_failure_is_the_shortest_program(report: Report) -> None:
    calls = failure(report).calls
    assert len(calls) <= 3
    assert {type(call) for call in calls} <= {AddNode, Submit, Ask}
    assert decode(encode(calls)) == list(calls)


def test_the_printed_test_fails_by_itself(report: Report) -> None:
    names: dict[str, object] = {}
    text = as_test(failure(report), report.plugin, report.settings)
    exec(compile(text, "printed", "exec"), names)
    test = names["test_only_offered_nodes"]
    assert callable(test)
    with pytest.raises(ContractBroken, match="which was not offered"):
        test()


@pytest.mark.slow
def test_a_trace_is_printed_as_a_test_that_fails_by_itself() -> None:
    report = run(Request(plugin=f"{FAULTY}:TAKES_AT_ONCE", only=("schedule-leaves-no-trace",), lives=10))
    names: dict[str, object] = {}
    exec(compile(as_test(failure(report), report.plugin, report.settings), "printed", "exec"), names)
    test = names["test_schedule_leaves_no_trace"]
    assert callable(test)
    with pytest.raises(ContractBroken, match="left a trace"):
        test()


@pytest.mark.slow
def test_a_set_that_decides_is_noticed() -> None:
    report = run(Request(plugin=f"{FAULTY}:HASHED", only=("hash-seeds-decide-alike",), lives=10))
    assert "PYTHONHASHSEED" in failure(report).text
    assert len(failure(report).calls) <= 4
    names: dict[str, object] = {}
    exec(compile(as_test(failure(report), report.plugin, report.settings), "printed", "exec"), names)
    test = names["test_hash_seeds_decide_alike"]
    assert callable(test)
    with pytest.raises(ContractBroken, match="PYTHONHASHSEED"):
        test()


@pytest.mark.slow
def test_what_one_life_leaves_for_the_next_is_printed_as_two_lives() -> None:
    plugin = "tests.conformance.mistakes.chance:KeepsSizesByName"
    report = run(Request(plugin=plugin, settings={"slots": 1}, only=("lives-are-independent",), lives=10))
    assert sum(isinstance(call, NewLife) for call in failure(report).calls) == 1
    names: dict[str, object] = {}
    text = as_test(failure(report), report.plugin, report.settings)
    exec(compile(text, "printed", "exec"), names)
    test = names["test_lives_are_independent"]
    assert callable(test)
    with pytest.raises(ContractBroken, match="after another life in the same process"):
        test()


def test_the_log_has_the_last_of_several_lives() -> None:
    lives = (AddNode(Node(name="a")), NewLife(), AddNode(Node(name="b")))
    assert [event for _, event in events_of(lives)] == [Synced(), NodeSeen(Node(name="b"))]


def test_the_log_can_be_replayed(tmp_path: Path) -> None:
    node, room = "a", (("cpu", 4000), ("pods", 4))
    pod = Pod(namespace="ns", name="p", uid="u", requests=(("cpu", 1000),))
    calls = (
        AddNode(Node(name=node, uid="n", allocatable=room)),
        FoundBound(Pod(namespace="ns", name="q", uid="v", node_name=node, phase="Running")),
        Submit((pod,)),
        Ask("u", (node,), Phase.FILTERING),
    )
    failed = Report(
        plugin="algorithm.packing:PLUGIN",
        contract=1,
        results=(
            Result(check="only-offered-nodes", status="failed", calls=calls),
            Result(check="fork-equal", status="passed"),
        ),
    )
    ((result, path),) = write_logs(tmp_path / "logs", failed)
    assert (result.check, path.name, path.stat().st_mode & 0o777) == (
        "only-offered-nodes",
        "only-offered-nodes.log",
        0o600,
    )
    said: list[str] = []
    assert check(open_log(path), said.append) == SAME
    assert "1 decision" in said[-1]


def test_reports_name_what_failed(report: Report) -> None:
    text, plain, junit = as_text(report), json.loads(as_json(report)), ET.fromstring(as_junit(report))
    assert "FAIL only-offered-nodes\n" in text
    assert text.endswith("1 check passed, 1 failed: only-offered-nodes")
    hung = msgspec.structs.replace(
        report, results=(*report.results, Result(check="decides-in-time", status="not-run", text="it hangs"))
    )
    assert as_text(hung).endswith("1 check passed, 1 did not run, 1 failed: only-offered-nodes")
    assert (plain["conforms"], [each["status"] for each in plain["results"]]) == (False, ["failed", "passed"])
    assert "life_of(" in plain["results"][0]["test"]
    assert (junit.get("tests"), junit.get("failures")) == ("2", "1")
    case = junit.find("testcase[@name='only-offered-nodes']/failure")
    assert case is not None
    assert "which was not offered" in str(case.get("message"))


def test_an_opted_out_check_is_excused_and_one_that_passes_is_not(report: Report) -> None:
    reasons = {"only-offered-nodes": "it knows better", "prints-nothing": "it logs"}
    judged = {each.check: each for each in opted_out(report, reasons).results}
    assert judged["only-offered-nodes"].status == "excused"
    assert judged["only-offered-nodes"].text.startswith("it knows better")
    assert judged["prints-nothing"].status == "unexpected"
    assert not opted_out(report, reasons).conforms
    assert opted_out(report, {"only-offered-nodes": "it knows better"}).conforms


@pytest.mark.parametrize("wanted", [{3}, {1, 7}, {0, 4, 9}, set(range(10))])
def test_shortening_keeps_what_is_needed(wanted: set[int]) -> None:
    calls = [Ask(str(number), ("n",), Phase.FILTERING) for number in range(10)]
    needed = [calls[number] for number in sorted(wanted)]
    assert shortened(calls, lambda some: all(each in some for each in needed), lambda: False) == needed


@pytest.mark.slow
def test_a_decision_that_is_not_declared_is_lost_by_a_restart() -> None:
    report = run(Request(plugin=f"{FAULTY}:FORGETS_ITS_DECISION", only=("recovery-keeps-decisions",), lives=15))
    assert "after a restart it decides differently" in failure(report).text
