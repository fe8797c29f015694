"""Logs that others sent: cut off, damaged, foreign, in pieces, or made to hurt. Errors name file and line."""

from __future__ import annotations

import gzip
import json
import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.operate.replay_check import SAME, check
from extender.recording import encoding
from extender.recording import lines as module
from extender.recording import log as log_module
from extender.recording.files import CHECKPOINT, LOG, Found, name_of
from extender.recording.lines import LONGEST_LINE, Lines
from extender.recording.log import Recording, open_log
from extender.recording.records import Gap, RecordingError
from extender.recording.replaying import Replay
from tests.support.engine.scripted_log import two_nodes

EVENTS = 16


@pytest.fixture
def plain(tmp_path: Path) -> bytes:
    """The header and sixteen events."""
    return two_nodes().write(tmp_path / "plain").read_bytes()


def edited(text: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The log with a changed header."""
    head, rest = text.split(b"\n", 1)
    header = json.loads(head)
    change(header)
    return json.dumps(header).encode() + b"\n" + rest


@pytest.fixture
def folder(tmp_path: Path, plain: bytes) -> Path:
    """Three segments of a recording, of 5, 5 and 6 events."""
    made = tmp_path / "folder"
    made.mkdir()
    head, *events = plain.splitlines(keepends=True)
    events[5:] = [event.replace(b'{"same":1}', b'["n1","n2"]') for event in events[5:]]
    for number, (first, last) in enumerate(((1, 5), (6, 10), (11, 16)), start=1):
        part = edited(head, lambda header, number=number, first=first: header.update(segment=number, first=first))
        text = b"".join([part, *events[first - 1 : last]])
        (made / name_of(number, LOG)).write_bytes(gzip.compress(text))
    return made


def only(path: Path) -> Recording:
    (recording,) = open_log(path).recordings
    return recording


def count(recording: Recording) -> int:
    return sum(1 for _ in recording.steps())


def refused(path: Path) -> str:
    with pytest.raises(RecordingError) as raised:
        count(only(path))
    return str(raised.value)


# -- cut off and damaged ----------------------------------------------------------------------------------------------


def test_a_log_is_read_plain_compressed_and_as_several_members(tmp_path: Path, plain: bytes) -> None:
    middle = plain.index(b"\n", len(plain) // 2) - 7
    members = gzip.compress(plain[:middle]) + gzip.compress(plain[middle:])
    for text in (plain, gzip.compress(plain), members):
        (tmp_path / "log").write_bytes(text)
        assert count(only(tmp_path / "log")) == EVENTS


@pytest.mark.parametrize("part", [0.8, 0.9, 0.999])
def test_a_log_that_was_cut_off_is_read_up_to_there_and_says_so(tmp_path: Path, plain: bytes, part: float) -> None:
    for text in (plain, gzip.compress(plain)):
        (tmp_path / "log").write_bytes(text[: int(len(text) * part)])
        recording = only(tmp_path / "log")
        found = count(recording)
        assert found <= EVENTS
        end = "(the server was killed, or still runs)"
        assert recording.remarks == [f"{tmp_path / 'log'}: it was cut off after event {found} {end}"]


def test_a_log_without_its_end_is_said_to_be_cut_off_although_its_file_is_whole(tmp_path: Path, plain: bytes) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(plain))  # it has no last line that says that the server has ended
    recording = only(tmp_path / "log")
    assert count(recording) == EVENTS
    end = "(the server was killed, or still runs)"
    assert recording.remarks == [f"{tmp_path / 'log'}: it was cut off after event {EVENTS} {end}"]


def test_a_segment_that_was_cut_off_in_the_middle_is_refused(folder: Path) -> None:
    second = folder / name_of(2, LOG)
    second.write_bytes(second.read_bytes()[:-30])
    assert f"{second}: it was cut off after event" in refused(folder)
    assert "and others follow" in refused(folder)


@pytest.mark.parametrize("bytes_left", [1, 20, 100, 300])
def test_the_last_segment_may_be_cut_off_even_in_its_header(folder: Path, bytes_left: int) -> None:
    last = folder / name_of(3, LOG)
    last.write_bytes(last.read_bytes()[:bytes_left])
    recording = only(folder)
    assert count(recording) == 10
    assert "it was cut off after event 10 (the server was killed, or still runs)" in recording.remarks[0]


@pytest.mark.parametrize("step", [41, pytest.param(3, marks=pytest.mark.slow)])
def test_zeros_in_the_place_of_what_was_written_last_are_no_damage(step: int, folder: Path) -> None:
    """So a file system may leave it when a machine fails: the size is written, and the contents are not."""
    last = folder / name_of(3, LOG)
    whole = last.read_bytes()

    def left(text: bytes) -> tuple[int, list[str]]:
        last.write_bytes(text)
        recording = only(folder)
        return count(recording), recording.remarks

    for kept in range(0, len(whole) + 1, step):
        begin = whole[:kept]
        assert left(begin + bytes(5000)) == left(begin.rstrip(b"\0") or b"\0"), kept
    assert left(whole[:-40] + bytes(5000))[0] > 10
    assert left(whole) == (EVENTS, left(whole)[1])
    (folder / name_of(2, LOG)).write_bytes((folder / name_of(2, LOG)).read_bytes()[:-40] + bytes(5000))
    assert "and others follow" in refused(folder)


def test_a_header_that_was_cut_off_between_others_is_missed(folder: Path) -> None:
    second = folder / name_of(2, LOG)
    second.write_bytes(second.read_bytes()[:100])
    assert "is segment 3 of its recording, but follows segment 1: a file is missing" in refused(folder)


def test_a_damaged_file_is_refused(folder: Path) -> None:
    second = folder / name_of(2, LOG)
    text = bytearray(second.read_bytes())
    text[len(text) // 2] ^= 0xFF
    second.write_bytes(bytes(text))
    assert str(second) in refused(folder)


# -- in pieces --------------------------------------------------------------------------------------------------------


def test_a_folder_is_one_recording_and_files_of_others_are_left_out(folder: Path) -> None:
    for name in ("README.md", "000004.waggle-log.gz.bak", "4.waggle-log.gz", ".000004.waggle-log.gz.1.new"):
        (folder / name).write_text("something else")
    recording = only(folder)
    assert [step.number for step in recording.steps()] == list(range(1, EVENTS + 1))
    assert [step.number for step in recording.steps(after=12)] == [13, 14, 15, 16]
    assert not [played for played in Replay(recording) if played.divergence]


def test_a_segment_that_is_missing_in_the_middle_is_named(folder: Path) -> None:
    (folder / name_of(2, LOG)).unlink()
    assert "000003.waggle-log.gz:1: is segment 3 of its recording, but follows segment 1" in refused(folder)


def test_segments_in_another_order_are_refused(folder: Path) -> None:
    for before, after in ((1, 9), (3, 1), (9, 3)):
        (folder / name_of(before, LOG)).rename(folder / name_of(after, LOG))
    assert "is segment 2 of its recording, but follows segment 3" in refused(folder)


def test_a_segment_that_begins_elsewhere_is_refused(folder: Path) -> None:
    third = folder / name_of(3, LOG)
    text = gzip.decompress(third.read_bytes()).replace(b'"first": 11', b'"first": 13', 1)
    third.write_bytes(gzip.compress(text))
    assert "000003.waggle-log.gz:1: begins with event 13, but 000002.waggle-log.gz ends with 10" in refused(folder)


def test_a_segment_that_begins_anew_is_refused_and_not_read_alone(folder: Path) -> None:
    path = folder / name_of(3, LOG)
    first = gzip.decompress((folder / name_of(1, LOG)).read_bytes())
    path.write_bytes(gzip.compress(edited(first, lambda header: header.update(segment=3))))
    with pytest.raises(RecordingError, match=r"000003.*begins with event 1, but 000002.* has event 10 already"):
        list(only(folder).steps())


def test_a_single_segment_is_read_but_not_replayed_without_its_checkpoint(folder: Path) -> None:
    recording = only(folder / name_of(2, LOG))
    assert [step.number for step in recording.steps()] == [6, 7, 8, 9, 10]
    with pytest.raises(RecordingError, match="begins with event 6, and has no checkpoint"):
        Replay(recording)


def test_a_gap_that_the_server_has_written_down_is_read(folder: Path) -> None:
    third = folder / name_of(3, LOG)
    text = gzip.decompress(third.read_bytes()).replace(b'"gap": ""', b'"gap": "the disk was full"', 1)
    third.write_bytes(gzip.compress(text))
    second = folder / name_of(2, LOG)
    second.write_bytes(gzip.compress(b"".join(gzip.decompress(second.read_bytes()).splitlines(keepends=True)[:3])))
    recording = only(folder)
    assert [item for item in recording.steps() if isinstance(item, Gap)] == [Gap(8, 10, "the disk was full")]
    replay = Replay(recording)
    assert len(list(replay)) == 7
    assert replay.gaps == [Gap(8, EVENTS, "the disk was full")]
    said: list[str] = []
    assert check(open_log(folder), said.append) == SAME
    assert f"events 8 to {EVENTS} are not replayed: the disk was full" in said
    assert f"all the same; {EVENTS - 7} more are not in the log, or not replayed" in said[-1]


def test_a_file_that_was_deleted_before_a_gap_is_a_part_of_it(folder: Path) -> None:
    third = folder / name_of(3, LOG)
    text = gzip.decompress(third.read_bytes()).replace(b'"gap": ""', b'"gap": "it was deleted"', 1)
    third.write_bytes(gzip.compress(text))
    (folder / name_of(2, LOG)).unlink()
    assert [item for item in only(folder).steps() if isinstance(item, Gap)] == [Gap(6, 10, "it was deleted")]


def test_a_file_of_no_bytes_is_left_out(folder: Path) -> None:
    """A server left them on a full disk, before it deleted them itself."""
    (folder / name_of(4, LOG)).touch()
    assert count(only(folder)) == EVENTS
    (folder / name_of(3, LOG)).rename(folder / name_of(5, LOG))
    assert count(only(folder)) == EVENTS


def test_a_folder_is_looked_at_again_if_a_server_deletes_its_oldest_file_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, list_files = folder / name_of(1, LOG), log_module.files_in

    def then_deleted(path: Path) -> list[Found]:
        found = list_files(path)
        oldest.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(log_module, "files_in", then_deleted)
    assert only(folder).header.first == 6


@pytest.mark.parametrize("deleted", [name_of(1, LOG), name_of(2, CHECKPOINT)])
def test_a_file_that_is_deleted_while_the_log_is_read_is_named_with_what_to_do(deleted: str, tmp_path: Path) -> None:
    recording = only(two_nodes().write_folder(tmp_path / "log", 5))
    (tmp_path / "log" / deleted).unlink()
    with pytest.raises(
        RecordingError, match=rf"{deleted}: was deleted while the log was read: .*copy the folder first"
    ):
        list(recording.steps()) if LOG in deleted else recording.starts[1].engine()


def test_a_folder_of_two_runs_has_two_recordings(folder: Path, plain: bytes) -> None:
    another = edited(plain, lambda header: header.update(recording="another"))
    (folder / name_of(4, LOG)).write_bytes(gzip.compress(another))
    assert [count(each) for each in open_log(folder).recordings] == [EVENTS, EVENTS]


def test_a_checkpoint_alone_is_no_log(tmp_path: Path, folder: Path) -> None:
    head = b'{"waggle_checkpoint":2,"recording":"r","number":1,"at":1.0,"algorithm":"packing"}\n'
    (tmp_path / "c").write_bytes(head + b'{"objects":[]}\n{"objects":0}\n')
    with pytest.raises(RecordingError, match="no header of a Waggle recording"):
        open_log(tmp_path / "c")
    shutil.copy(tmp_path / "c", folder / name_of(2, CHECKPOINT))
    assert count(only(folder)) == EVENTS  # it is of another recording


# -- made to hurt -----------------------------------------------------------------------------------------------------


def bomb(head: bytes, size: int) -> bytes:
    """A gzip file of so many blanks in one line."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [deflate.compress(head)]
    parts += [deflate.compress(b" " * (1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, deflate.flush()])


def test_a_line_that_inflates_without_end_is_refused_within_memory(
    tmp_path: Path, plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 4 << 20)
    (tmp_path / "log").write_bytes(bomb(plain, 64 << 20))
    tracemalloc.start()
    try:
        assert "log:18: a line of more than" in refused(tmp_path / "log")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert LONGEST_LINE < 64 << 20


def test_a_line_of_very_many_values_is_refused_before_they_fill_the_memory(
    tmp_path: Path, plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four bytes of a list of names take sixty in memory."""
    monkeypatch.setattr(encoding, "_MOST_VALUES", 100_000)
    text = asked(["n"] * 400_000)
    (tmp_path / "log").write_bytes(plain + text)
    assert len(text) > encoding._LONG_LINE
    tracemalloc.start()
    try:
        assert "log:18: no event: a line of more than 100000 values" in refused(tmp_path / "log")
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[" * 100_000, "log:18: no event"),
        (b'{"number":17,"at":1e999,"event":"Synced","data":{}}', "log:18: no event"),
        (b'{"number":99999999999999999999,"at":1,"event":"Synced","data":{}}', "log:18: expected event 17, not 99999"),
        (
            b'{"number":17,"at":1,"event":"Synced","data":{},"out":[]}\n{"answer":3,"out":[]}',
            "log:19: an answer to event 3",
        ),
        (b'{"end":16}\n{"number":17,"at":1,"event":"Synced","data":{}}', "log:19: something follows the end"),
        (b'{"end":3}', "log:18: the end after event 3, but the last one is 16"),
        (b"", "log:18: no event"),
        (b"\xff\xfe", "log:18: no event"),
    ],
)
def test_lines_that_are_wrong_are_named(tmp_path: Path, plain: bytes, line: bytes, said: str) -> None:
    (tmp_path / "log").write_bytes(plain + line + b"\n")
    assert said in refused(tmp_path / "log")


def asked(nodes: object) -> bytes:
    data = {"pod": {"namespace": "default", "name": "p", "uid": "u"}, "nodes": nodes}
    return json.dumps({"number": 17, "at": 1.0, "event": "FilterRequested", "data": data}).encode() + b"\n"


@pytest.mark.parametrize(
    "nodes",
    [
        {"same": 99},
        {"same": -1},
        {"at": "BwA="},
        {"at": "BwAA"},
        {"at": "BwAAAA==", "wide": True},
        {"at": [1]},
        {"runs": [0, 3]},
        {"runs": [-1, 1]},
        {"runs": [0, -1]},
        {"runs": [0, 2] * 600_000},
        {"new": [1]},
        "n1",
        17,
    ],
)
def test_lists_of_names_that_refer_to_nothing_are_refused(tmp_path: Path, plain: bytes, nodes: object) -> None:
    (tmp_path / "log").write_bytes(plain + asked(nodes))
    assert "log:18: no event: nodes: " in refused(tmp_path / "log") or "log:18" in refused(tmp_path / "log")


def test_many_short_lines_cost_time_that_grows_with_them_only(tmp_path: Path, plain: bytes) -> None:
    """Not with their square: lines in one block are not copied again and again."""
    copied = []
    for events in (2_000, 8_000):
        text = b"".join(b'{"number":%d,"at":1,"event":"Synced","data":{}}\n' % (17 + each) for each in range(events))
        (tmp_path / "log").write_bytes(plain + text)
        with Lines(tmp_path / "log") as found:
            copied.append(sum(len(line) for line in found))
    assert copied[1] < 5 * copied[0]


# -- anything ---------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_log_with_anything_in_it_is_read_or_refused(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Bytes are changed, cut out, doubled and put in, before or after compression: no other exception comes out."""
    folder = tmp_path_factory.getbasetemp() / "anything"
    folder.mkdir(exist_ok=True)
    text = two_nodes().write(folder / "plain").read_bytes()
    compressed = data.draw(st.booleans())
    if compressed and data.draw(st.booleans()):
        text, compressed = gzip.compress(text, mtime=0), False
    for _ in range(data.draw(st.integers(1, 4))):
        at, length = data.draw(st.integers(0, 20_000)) % len(text), data.draw(st.integers(0, 40))
        put = data.draw(st.binary(max_size=30) | st.none() | st.sampled_from([b"{", b"\n", b"]"]))
        put = text[at : at + length] if put is None else put
        text = text[:at] + put + text[at + length :]
    path = folder / "log"
    path.write_bytes(gzip.compress(text, mtime=0) if compressed else text)
    try:
        for recording in open_log(path).recordings:
            for played in Replay(recording):
                assert played.step.number >= 0
    except RecordingError as error:
        assert str(path) in str(error) or "log:1" in str(error)
