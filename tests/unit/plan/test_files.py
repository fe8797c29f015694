"""Plan files are read back as they were written; everything else is refused, and the message says why."""

from __future__ import annotations

import msgspec
import pytest

from extender.plan import files
from extender.plan.files import PlanFile, PlanFileError
from extender.plan.records import Changes, Options, Target
from extender.plan.showing.encoding import to_json
from tests.unit.plan.showing.plans import mixed
from tests.unit.plan.worlds import raw_object

FILE = PlanFile(
    release="1.2.3",
    plan=mixed(),
    changes=Changes(
        create=(raw_object("Job", "j"),), priorities=((Target("Pod", "default", "a"), 7),), settings="a: 1"
    ),
    options=Options(seed=3),
    parts={"Node/n1": "abc", "Pod/default/p": "def@n1"},
)


def test_a_file_is_read_back_as_it_was() -> None:
    assert files.decode(files.encode(FILE)) == FILE
    assert files.decode_any(files.encode(FILE)) == FILE


def test_what_was_printed_can_be_compared_but_not_applied() -> None:
    assert files.decode_any(to_json(FILE.plan)) == PlanFile(plan=FILE.plan)
    with pytest.raises(PlanFileError, match="waggle plan --out"):
        files.decode(to_json(FILE.plan))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is no plan"),
        (b"[]", "is no plan"),
        (b"\xff", "is no plan"),
        (b"[" * 100_000, "is no plan"),
        (b"{}", "is of version None but this release reads version 1"),
        (b'{"version": 2, "release": "9.9", "plan": {}}', "is of version 2, written by release 9.9, but this release"),
        (b'{"version": true, "plan": {}}', "is of version True"),
        (b'{"version": 1, "plan": {"rows": 3}}', r"is no plan: Expected `array`, got `int` - at `\$.plan.rows`"),
        (b'{"version": 1, "plan": {"rows": [{"sign": "!"}]}}', r"is no plan: Invalid enum value '!'"),
    ],
)
def test_everything_else_is_refused_and_told(data: bytes, why: str) -> None:
    with pytest.raises(PlanFileError, match=why):
        files.decode_any(data)


def test_a_file_that_is_too_large_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    with pytest.raises(PlanFileError, match="more than 0 MiB"):
        files.decode(msgspec.json.encode(FILE))
