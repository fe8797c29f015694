"""`waggle replay LOG --at TIME` as a text and as JSON, and --step with piped commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.operate.replay_look import UnknownPodError, explanation_text, look_text, pages
from extender.operate.replay_steps import HELP, SHOWN, Session
from extender.replay.frozen import Frozen, freeze
from extender.replay.logs import Log, open_log
from extender.replay.moments import parse
from extender.replay.stepping import Stepper
from extender.scheduling.events import NodeSeen
from tests.support.engine.objects import pod
from tests.support.engine.scripted_log import gpu_node, two_nodes


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return open_log(two_nodes().write(Path(tmp_path_factory.mktemp("log")) / "waggle.log"))


@pytest.fixture
def frozen(log: Log) -> Frozen:
    return freeze(log, parse("+4m"))


def stepped(log: Log, *commands: str) -> list[str]:
    said: list[str] = []
    Session(Stepper(log), said.append).run(commands)
    return said


# -- the text -------------------------------------------------------------------------------------------------


def test_the_text_is_the_cluster_at_that_moment(frozen: Frozen):
    never = "It can never run: a pod needs 8 nvidia.com/gpu on one node, and the largest node has 4 nvidia.com/gpu."
    assert look_text(frozen).splitlines() == [
        "Replay of waggle.log at +4m0s, after event 15; algorithm packing.",
        "",
        "Nodes: 2 of 2 can be used. Pods: 2 Bound, 1 Waiting.",
        "",
        "RESOURCE        TAKEN  OF   USE",
        "nvidia.com/gpu  7      8    87%",
        "cpu             2      128  1%",
        "pods            2      220  0%",
        "",
        "WAIT  AGE  SUCH AS    WHY",
        f"1     60s  default/c  {never}",
        "",
        "WAITING    FOR  NODE  GANG  WHY",
        "default/c  60s  -     -     NodeLacksResource",
        "",
        "BOUND      FOR   NODE  GANG  WHY",
        "default/a  2m    n1    -",
        "default/b  119s  n2    -",
        "",
        "NODE  STATE  PODS  TAKEN",
        "n1    ready  1     3/4 nvidia.com/gpu, 1/64 cpu",
        "n2    ready  1     4/4 nvidia.com/gpu, 1/64 cpu",
    ]


def test_the_explanation_of_one_pod_is_that_of_waggle_explain(frozen: Frozen):
    lines = explanation_text(frozen, "default", "a").splitlines()

    assert lines[:3] == [
        "Replay of waggle.log at +4m0s, after event 15; algorithm packing.",
        "default/a: Bound on n1 for 2m",
        "History:",
    ]
    assert lines[-1].endswith("event 8: Binding -> Bound on n1: shown bound")


def test_an_unknown_pod_is_refused_with_similar_names(frozen: Frozen):
    with pytest.raises(UnknownPodError, match=r"no pod other/a is known in waggle.log at \+4m0s.*default/a"):
        explanation_text(frozen, "other", "a")


def test_json_is_as_the_inspect_pages_have_it(frozen: Frozen):
    found = pages(frozen)

    assert (found["replay"], found["event"]) == ("waggle.log at +4m0s, after event 15", 15)
    assert [(each["name"], each["state"]) for each in found["pods"]] == [
        ("a", "Bound"),
        ("b", "Bound"),
        ("c", "Waiting"),
    ]
    assert (
        found["nodes"][0]["requested"] == {"cpu": 1000, "nvidia.com/gpu": 3, "pods": 1} | found["nodes"][0]["requested"]
    )


def test_the_text_has_a_bound_however_large_the_cluster(tmp_path: Path):
    def lines_of(number: int) -> int:
        made = two_nodes()
        for each in range(number):
            made.see(500.0, pod(f"p{each:04}"))
            made.at(500.0, NodeSeen(gpu_node(f"m{each:04}")))
        return len(look_text(freeze(open_log(made.write(tmp_path / "large.log")), parse("end"))).splitlines())

    assert lines_of(400) == lines_of(100)


# -- steps ----------------------------------------------------------------------------------------------------


def test_enter_goes_from_decision_to_decision(log: Log):
    assert stepped(log, "", "", "", "") == [
        "    ... 4 events in between",
        "+1m0s  #5  filter default/a, 2 nodes offered\n    -> placed on n1",
        "    ... 4 events in between",
        "+2m0s  #10  filter default/b, 2 nodes offered\n    -> placed on n2",
        "    ... 4 events in between",
        "+3m0s  #15  filter default/c, 2 nodes offered\n"
        "    -> refused: NodeLacksResource: node never has enough nvidia.com/gpu",
        "    ... 1 event in between",
        "The log ends here.",
    ]


def test_all_commands_in_one_pipe(log: Log):
    said = stepped(log, "n\n", "3\n", " /b \n", "p default/a\n", "b\n", "/other/b\n", "q\n", "n\n")

    assert [text.splitlines()[0] for text in said] == [
        "+0s  #1  node n1 seen: ready",
        "+0s  #2  node n2 seen: ready",
        "+0s  #3  Synced",
        "+1m0s  #4  pod default/a seen: Pending",
        "    ... 4 events in between",
        "+2m0s  #9  pod default/b seen: Pending",
        "default/a: Bound on n1 for 59s",
        "+1m0s  #5  filter default/a, 2 nodes offered",
        "No event after this one concerns other/b.",
    ]


def test_back_at_the_beginning_says_so(log: Log):
    assert stepped(log, "b", "n")[0] == "At the beginning of the log."


@pytest.mark.parametrize("wrong", ["x", "-1", "1.5", "/", "p", "p ", "ü", "٣"])
def test_what_is_no_command_gets_the_help(log: Log, wrong: str):
    [said] = stepped(log, wrong)
    assert said.endswith(HELP)


@pytest.mark.parametrize("number", ["0", "000", "99999999999", "9" * 5000])
def test_a_number_of_events_that_no_log_has_is_refused_as_a_number(log: Log, number: str):
    refused, then = stepped(log, number, "1")
    assert refused == (f"There is no such event: expected a number of events from 1 to 999999999, got {number[:60]}.")
    assert then.startswith("+0s  #1")


def test_an_unknown_pod_does_not_end_the_walk(log: Log):
    assert stepped(log, "p x/y", "n")[-1] == "+0s  #1  node n1 seen: ready"


def test_a_large_number_shows_the_last_events_only(tmp_path: Path):
    made = two_nodes()
    for each in range(500):
        made.see(500.0, pod(f"p{each:04}"))

    said = stepped(open_log(made.write(tmp_path / "long.log")), "100000")

    assert said[0] == f"    ... {516 - SHOWN} events not shown"
    assert (len(said), said[-1]) == (SHOWN + 2, "The log ends here.")
