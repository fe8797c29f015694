"""A recording: the lines of one simulation, how they are kept, and where two of them differ first.

{"who":"waggle-1","born":"packing","settings":{...},"policy":{...}}         a fresh process
{"who":"waggle-1","at":12.5,"event":{...},"out":[{...}],"ready":true,"due":32.5}
{"who":"waggle-1","pods":[["default/p1","uid","Bound","n1",""]],"counts":[["binds","done",1]]}       at its end
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.frozen import today
from tests.frozen.plain import KIND, line_of, plain
from tests.frozen.words import APART
from tests.frozen.words import today as in_words_of_today

FOLDER = Path(__file__).parent / "recordings"
#: Lines of the same engine that are shown before the first difference.
_BEFORE = 4
_WIDTH = 1500

Line = dict[str, Any]


# -- lines ------------------------------------------------------------------------------------------------------------


def born(who: str, algorithm: str, settings: Mapping[str, Any], policy: Any) -> Line:
    exact = today.policy_of(plain(policy))  # 12 seconds may be an int or a float
    return {"who": who, "born": algorithm, "settings": plain(settings), "policy": plain(exact, APART)}


def step(who: str, at: float, event: Any, out: list[Any], engine: Any) -> Line:
    return {
        "who": who,
        "at": at,
        "event": plain(event, APART),
        "out": plain(out, APART),
        "ready": today.is_ready(engine),
        "due": today.next_due(engine),
    }


def end(who: str, engine: Any) -> Line:
    return {"who": who, "pods": plain(today.pods_of(engine)), "counts": plain(today.counts_of(engine))}


def replay(lines: list[Line]) -> Iterator[Line]:
    """The events of `lines` (in today's words) again, each engine fresh: what they cause now."""
    engines: dict[str, today.Replayed] = {}
    for line in lines:
        who = line["who"]
        if "born" in line:
            policy = today.policy_of(line["policy"])
            engines[who] = today.Replayed(line["born"], line["settings"], policy)
            yield born(who, line["born"], line["settings"], policy)
        elif "event" in line:
            event = today.event_of(line["event"])
            out = engines[who].handle(event, line["at"])
            yield step(who, line["at"], event, out, engines[who].engine)
        else:
            yield end(who, engines[who].engine)


# -- files ------------------------------------------------------------------------------------------------------------


def write(name: str, lines: list[Line]) -> int:
    """Writes the recording anew; its size in bytes. The same lines give the same file."""
    text = "".join(f"{line_of(line)}\n" for line in lines)
    packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    FOLDER.mkdir(exist_ok=True)
    return _path(name).write_bytes(packed)


def frozen(name: str) -> list[Line]:
    """The recording as it was written."""
    return [json.loads(line) for line in gzip.decompress(_path(name).read_bytes()).splitlines()]


def read(name: str) -> list[Line]:
    """The recording in today's words."""
    return [in_words_of_today(line) for line in frozen(name)]


def _path(name: str) -> Path:
    return FOLDER / f"{name}.jsonl.gz"


# -- comparing --------------------------------------------------------------------------------------------------------


def difference(name: str, then: list[Line], now: Iterator[Line] | list[Line]) -> str:
    """Where the two differ first, in words; "" if they are the same, byte for byte."""
    for number, (was, now_is) in enumerate(zip_longest(then, now), start=1):
        if was is None or now_is is None or line_of(was) != line_of(now_is):
            return _told(name, number, then, was, now_is)
    return ""


def _told(name: str, number: int, then: list[Line], was: Line | None, now_is: Line | None) -> str:
    who = (was or now_is or {})["who"]
    before = [line for line in then[: number - 1] if line["who"] == who][-_BEFORE:]
    told = [f"{name} differs from its frozen recording in line {number}: {_summary(was or now_is)}"]
    told += [f"  before: {_summary(line)}" for line in before]
    if was is None or now_is is None:
        told.append("  it goes on longer than it did" if was is None else "  it ends here, and did not then")
    else:
        path, old, new = first_difference(was, now_is) or ("order of fields", was, now_is)
        told += [f"  first at {path}", f"    then: {_short(old)}", f"    now:  {_short(new)}"]
        told += [f"  the whole then: {_short(was)}", f"  the whole now:  {_short(now_is)}"]
    told.append("If that was renamed, tests/frozen/words.py needs a row. If it was changed, it must not be.")
    return "\n".join(told)


def _summary(line: Line | None) -> str:
    assert line is not None
    if "event" not in line:
        return f"{line['who']} {'begins' if 'born' in line else 'ends'}"
    event = line["event"]
    pod = event.get("pod") or event
    about = "/".join(pod[key] for key in ("namespace", "name") if key in pod)
    causes = ", ".join(each[KIND] for each in line["out"]) or "nothing"
    return f"{line['who']} at {line['at']:.3f}: {event[KIND]} {about} -> {causes}"


def _short(value: object) -> str:
    text = line_of(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}... ({len(text)} characters)"


def first_difference(then: Any, now: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """The path to the first part that differs, and that part then and now."""
    if isinstance(then, dict) and isinstance(now, dict):
        pairs: Any = [(key, then.get(key), now.get(key)) for key in [*then, *(key for key in now if key not in then)]]
        path += "." if path else ""
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = [(f"[{index}]", *both) for index, both in enumerate(zip(then, now, strict=True))]
    else:
        return None if then == now and type(then) is type(now) else (path, then, now)
    return next((found for key, a, b in pairs if (found := first_difference(a, b, f"{path}{key}"))), None)
