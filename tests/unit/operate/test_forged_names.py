"""Names with line breaks and controls in a log: no command of recordings writes them raw to a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from algorithm.interface import SuggestedNodes
from extender.cli import app
from extender.scheduling.events import BindRequested, Candidate, FilterRequested, NodeSeen, PreemptRequested, Synced
from tests.support.engine.scripted_log import ScriptedLog, gpu_node, gpu_pod

FORGED = "a\nFORGED\r\x1b[31m\x9b31m\u202e\u2028FORGED"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    made = ScriptedLog()
    made.header |= {"release": FORGED}
    node = msgspec.structs.replace(gpu_node(f"node-{FORGED}"), labels=((FORGED, FORGED),))
    made.at(1.0, NodeSeen(node))
    made.at(1.0, Synced())
    for number, gpus in enumerate((1, 8, 2)):
        names = {"namespace": f"ns-{FORGED}", "uid": f"uid-{number}-{FORGED}", "group": FORGED}
        pod = gpu_pod(f"pod-{number}-{FORGED}", gpus, **names)
        made.see(2.0 + number, pod)
        made.place(2.0 + number, pod, node.name)
        made.at(2.5 + number, PreemptRequested(pod, (Candidate(node.name, (f"uid-0-{FORGED}",)),)))
    made.at(6.0, BindRequested(99, "ns", FORGED, FORGED, node.name))
    made.at(7.0, FilterRequested(pod, SuggestedNodes((node.name, FORGED))))
    return made.write(tmp_path / "log")


COMMANDS = [
    ["replay"],
    ["replay", "--at", "end"],
    ["replay", "--at", "end", "-o", "json"],
    ["replay", "--at", "end", "--pod", f"ns-{FORGED}/pod-0-{FORGED}"],
    ["replay", "--at", "end", "--pod", f"ns-{FORGED}/pod-9"],
    ["replay", "--step"],
    ["replay", "--algorithm", "fgd"],
    ["replay", "--algorithm", "fgd", "--json", "-"],
    ["record", "show"],
    ["record", "show", "-o", "json"],
    ["record", "stats"],
    ["record", "stats", "-o", "json"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:40].replace("\n", ""))
def test_no_name_controls_a_terminal(log: Path, command: list[str]) -> None:
    words = command[:2] if command[0] == "record" else command[:1]
    result = CliRunner().invoke(app, [*words, str(log), *command[len(words) :]], input="\n" * 20 + "q\n")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    for text in (result.stdout, result.stderr):
        assert [each for each in text if not (each.isprintable() or each == "\n")] == []
        assert [line for line in text.splitlines() if line.lstrip().startswith("FORGED")] == []
    if "json" in command or "-" in command:
        for line in result.stdout.splitlines() if "show" in command else [result.stdout]:
            json.loads(line)
