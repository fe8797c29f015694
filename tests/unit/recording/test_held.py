"""What a replay holds is bounded: by the weight of pods, nodes and offers, however small the file is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from algorithm.interface import SuggestedNodes
from extender.cli import app
from extender.operate import replay_commands
from extender.recording import held
from extender.recording.encoding import LineWriter, header_of
from extender.recording.files import LOG, name_of
from extender.recording.held import Held
from extender.recording.log import open_log
from extender.recording.records import RecordingError, Step
from extender.scheduling.events import Event, FilterRequested, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.policy import Policy
from tests.support.engine.scripted_log import gpu_node, gpu_pod, two_nodes


def forged(path: Path, pods: int, names: int) -> Path:
    """Each pod is offered all nodes, in a list of its own that takes a few bytes in the file."""
    writer = LineWriter()
    known = tuple(f"node-{number:06}" for number in range(names))
    lines = [writer.header(header_of("packing", {}, Policy(), recording="r")), writer.event(1, 0.0, Synced(), [])]
    for number in range(pods):
        offer = SuggestedNodes(known[number:] + known[:number])
        event = FilterRequested(gpu_pod(f"p{number}"), offer)
        lines.append(writer.event(number + 2, 1.0, event, None))
    path.write_bytes(gzip.compress(b"".join(lines)))
    return path


@pytest.mark.parametrize(
    "command", [["replay"], ["replay", "--at", "end"], ["replay", "--algorithm", "fgd"], ["record", "anonymize"]]
)
def test_a_forged_log_is_refused_at_the_event_that_is_too_much(tmp_path: Path, command: list[str]) -> None:
    log = forged(tmp_path / "log.gz", 12, 5000)
    words = command[: 2 if command[0] == "record" else 1]
    more = [str(tmp_path / "out")] if command[0] == "record" else []
    arguments = [*words, str(log), *more, *command[len(words) :]]
    result = CliRunner().invoke(app, [*arguments, "--memory-mib", "1"])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "at event 5 a replay would hold more than 1 MiB of pods, nodes and names" in said
    assert "--memory-mib N allows more" in said
    assert "--memory-mib" not in CliRunner().invoke(app, [*arguments, "--memory-mib", "8"]).output


@pytest.mark.parametrize("command", [["replay"], ["replay", "--at", "end"], ["record", "anonymize"]])
def test_a_state_that_is_too_much_is_refused_before_it_is_made(tmp_path: Path, command: list[str]) -> None:
    """Most pods are in the checkpoint; two events follow it."""
    made = two_nodes()
    for number in range(600):
        made.see(500.0, gpu_pod(f"p{number}"))
    made.see(600.0, gpu_pod("last"))
    folder = made.write_folder(tmp_path / "log", every=615)
    (folder / name_of(1, LOG)).unlink()
    words = command[: 2 if command[0] == "record" else 1]
    more = [str(tmp_path / "out")] if command[0] == "record" else []
    arguments = [*words, str(folder), *more, *command[len(words) :]]
    result = CliRunner().invoke(app, [*arguments, "--memory-mib", "1"])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "the state of the checkpoint cannot be used: it would take more than 1 MiB; --memory-mib N allows" in said
    assert CliRunner().invoke(app, [*arguments, "--memory-mib", "32"]).exit_code == 0


def test_the_weight_grows_with_the_names_and_not_with_the_events(tmp_path: Path) -> None:
    def weight(pods: int, names: int) -> int:
        recording = open_log(forged(tmp_path / f"{pods}-{names}", pods, names)).recordings[0]
        weighed = Held("log")
        for step in recording.steps():
            assert isinstance(step, Step)
            weighed.take(step)
        return weighed.bytes

    one = weight(10, 1000)
    assert weight(20, 1000) == pytest.approx(2 * one, rel=0.1)
    assert weight(10, 2000) == pytest.approx(2 * one, rel=0.1)


def test_what_has_gone_or_is_shared_weighs_nothing() -> None:
    weighed = Held("log", 1)

    def take(event: Event) -> int:
        weighed.take(Step(0.0, event, 1, size=500))
        return weighed.bytes

    offer = SuggestedNodes(("a", "b"))
    pod, other = gpu_pod("a"), gpu_pod("b")
    one = take(FilterRequested(pod, offer))
    two = take(FilterRequested(other, offer))
    assert 0 < two - one < one
    assert take(FilterRequested(other, offer)) == two
    assert take(PodSeen(pod)) == two
    assert take(NodeSeen(gpu_node("a"))) > two
    assert take(NodeGone("a")) == two
    take(PodGone(pod.namespace, pod.name, pod.uid))
    assert take(PodGone(other.namespace, other.name)) == 0


def test_the_message_names_the_event() -> None:
    weighed = Held("some.log", 1)
    with pytest.raises(RecordingError, match=r"some.log: at event 7 a replay would hold more than 1 MiB"):
        weighed.take(Step(0.0, PodSeen(replace(gpu_pod("a"), uid="u")), 7, size=1 << 20))


def test_the_command_has_the_bound_of_the_room() -> None:
    assert held.MOST_MIB == replay_commands.MOST_MIB
