"""`waggle record`: shows recordings, cuts a part out, counts events, and replaces names.

Exit status: 0 done; 1 (anonymize) a decision differs or a name is left; 2 the log or an option cannot be used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.operate.help import App
from extender.operate.output import remark, say, say_json
from extender.operate.refusal import refuse
from extender.operate.replay_commands import MOST_MIB, LogArgument, MemoryOption, run_option

if TYPE_CHECKING:
    from algorithm.model import PodKey
    from extender.recording.log import Log, Recording


class Output(StrEnum):
    """How things are shown."""

    TEXT = "text"
    JSON = "json"


FromOption = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="MOMENT", help="2026-11-24T13:05:00Z, +10m after the first event, or an event's number."
    ),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="MOMENT", help="As --from; events at this moment are included.")
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="text, or json for programs.")]
RunOption = Annotated[int | None, run_option("the latest")]
OutArgument = Annotated[Path, typer.Argument(metavar="OUT", help="A new file.")]


def add_record_commands(app: typer.Typer) -> None:
    """Make these commands of `app`."""
    commands = App(help="Look at what `waggle serve --record FOLDER` has recorded (docs/record.md).")
    for command in (show, cut, stats, anonymize):
        commands.command(command.__name__)(command)
    app.add_typer(commands, name="record")


def show(
    log: LogArgument,
    pod: Annotated[str | None, typer.Option(metavar="NS/NAME", help="Only events that concern this pod.")] = None,
    begin: FromOption = None,
    end: ToOption = None,
    decisions: Annotated[bool, typer.Option("--decisions", help="Only events that led to a decision.")] = False,
    run: RunOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show events one by one: when, what happened, what was decided, and what was done.

        waggle record show /var/lib/waggle/record --pod default/train-0
        waggle record show LOG --from +10m --to +12m --decisions
        waggle record show LOG -o json | jq 'select(.event == "FilterRequested")'

    Exit status: 0 shown; 2 the log cannot be used.
    """
    from extender.operate.record_range import range_of
    from extender.operate.record_show import show as lines_of
    from extender.replay.logs import span_of

    key = _pod(pod)
    with _failing():
        whole = _open(log)
        recording = whole.run(run)
        span = span_of(recording)
        wanted = range_of(begin, end, span)
        is_empty = True
        for line in lines_of(recording, wanted, span, pod=key, decisions=decisions, as_json=output is Output.JSON):
            is_empty = False
            (say_json if output is Output.JSON else say)(line)
        for each in recording.remarks:
            remark(each)
        if is_empty:
            remark(_nothing(pod, run or len(whole.recordings), len(whole.recordings)))


def cut(
    log: LogArgument,
    out: OutArgument,
    begin: FromOption = None,
    end: ToOption = None,
    run: RunOption = None,
    memory_mib: MemoryOption = MOST_MIB,
) -> None:
    """Write a part of a recording into one file that replays by itself, for example for a bug report.

    It replays the events before the part, and writes the engine's state at its beginning as a checkpoint, so a replay
    of the part decides exactly as a replay of the whole.

        waggle record cut LOG part.gz --from 2026-11-24T13:05:00Z --to 2026-11-24T13:10:00Z
        waggle replay part.gz

    Exit status: 0 written; 2 the log cannot be used, and nothing is written.
    """
    from extender.operate.record_range import range_of
    from extender.recording.cutting import cut as cut_out
    from extender.replay.logs import span_of

    with _failing():
        _check_new(out, log)
        recording = _run(log, run, memory_mib)
        wanted = range_of(begin, end, span_of(recording))
        made = cut_out(recording, wanted.is_before, wanted.is_after, out)
    behind = f", after a checkpoint of event #{made.checkpoint}" if made.checkpoint else ""
    say(f"{out}: events #{made.first} to #{made.last}{behind}; {made.bytes:,} bytes")


def stats(
    log: LogArgument,
    run: Annotated[int | None, run_option("all, one after the other")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Count events by kind, with the bytes that they take, pods, nodes and decisions, for each run of the server.

    Exit status: 0 shown; 2 the log cannot be used.
    """
    from extender.operate.record_stats import as_json, as_text, stats_of

    with _failing():
        found = stats_of(_open(log), run)
    if output is Output.JSON:
        typer.echo(json.dumps(as_json(found), indent=2))
    else:
        say("\n\n".join(map(as_text, found)))


def anonymize(
    log: LogArgument,
    out: OutArgument,
    run: RunOption = None,
    keep_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Keep this key of labels, annotations and taints; repeatable."),
    ] = None,
    memory_mib: MemoryOption = MOST_MIB,
) -> None:
    """Write a recording with numbers in place of names, to give it to others.

    The numbers follow the order of the names, so most algorithms decide the same. It says where one does not. Keys of
    labels and annotations are names, too, but for those of Kubernetes and Waggle: an algorithm of your own may need
    the key that it reads.

        waggle record anonymize LOG for-others.gz
        waggle record anonymize LOG for-others.gz --keep-key acme.example/gang
        waggle replay for-others.gz

    Exit status: 0 written, and all decisions are the same; 1 written, but a decision differs or a name is left; 2 the
    log cannot be used, and nothing is written.
    """
    from extender.operate.record_anonymous import anonymize as without_names
    from extender.operate.record_anonymous import as_text

    with _failing():
        _check_new(out, log)
        made = without_names(_run(log, run, memory_mib), out, keep_keys=keep_key or ())
    say(as_text(made, out))
    if made.different or made.left:
        raise typer.Exit(1)


def _nothing(pod: str | None, run: int, runs: int) -> str:
    """Say that no event was shown, and where there are others."""
    about = "" if pod is None else f" concerns {pod}"
    where = "" if runs == 1 else f" in run {run} of {runs}; --run N shows another one"
    return f"no event that was asked for{about}{where}" if about else f"no event is in what was asked for{where}"


def _open(path: Path) -> Log:
    from extender.recording.log import open_log

    return open_log(path)


def _run(path: Path, number: int | None, memory_mib: int) -> Recording:
    log = _open(path).hold(memory_mib)
    if number is None and (runs := len(log.recordings)) > 1:
        remark(
            f"{path.name}: run {runs} of {runs}, the latest; --run N takes another one, `waggle record stats` lists all"
        )
    return log.run(number)


def _check_new(out: Path, log: Path) -> None:
    """Raise OSError if the file exists, since a recording cannot be made again, or would be in the folder of the
    recording: a server refuses a folder with other files in it."""
    if log.is_dir() and log.resolve() in out.resolve().parents:
        raise OSError(22, "is in the folder of the recording; expected another folder", str(out))
    if out.exists() or out.is_symlink():
        raise FileExistsError(17, "is there already; expected the name of a new file", str(out))


def _pod(text: str | None) -> PodKey | None:
    from algorithm.model import PodKey

    if text is None:
        return None
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise typer.BadParameter(f"expected NAMESPACE/NAME, or NAME in default, got {text!r}", param_hint="--pod")
    return PodKey(namespace or "default", name)


@contextmanager
def _failing() -> Iterator[None]:
    from algorithm.registry import AlgorithmError
    from extender.recording.records import RecordingError
    from extender.replay.moments import MomentError

    try:
        yield
    except BrokenPipeError:
        raise
    except (AlgorithmError, MomentError, RecordingError, OSError) as error:
        raise refuse(error) from error
