"""The audit of locked versions: a known vulnerability fails it, a service that is not there does not; both are said."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests import audit
from tests.audit import LOCK, Auditor, Pinned, locked, pages_of, report

PINNED = [Pinned("alpha", "1.0"), Pinned("beta", "2.0")]
KNOWN = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-1", "PYSEC-2026-1"],
    "fixed_in": ["2.1"],
    "summary": "evil\x1b[2J",
    "withdrawn": None,
}


def index(**vulnerabilities: Any) -> Callable[[httpx.Request], httpx.Response]:
    """An index with these advisories, by package."""

    def answer(request: httpx.Request) -> httpx.Response:
        _, _, name, version, _ = request.url.path.split("/")
        assert Pinned(name, version) in PINNED
        return httpx.Response(200, json={"info": {}, "vulnerabilities": vulnerabilities.get(name, [])})

    return answer


def audited(answer: Callable[[httpx.Request], httpx.Response]) -> tuple[int, str]:
    auditor = Auditor("https://index.test/simple", httpx.MockTransport(answer))
    try:
        status, lines = report(auditor, PINNED)
    finally:
        auditor.close()
    return status, "\n".join(lines)


def test_nothing_known_is_said() -> None:
    assert audited(index()) == (0, "audit: 2 locked versions, 0 known vulnerabilities")


def test_a_known_vulnerability_fails_and_is_named() -> None:
    status, said = audited(index(beta=[KNOWN]))
    assert status == 1
    assert r"beta 2.0: PYSEC-2026-1, CVE-2026-1, fixed in 2.1: evil\x1b[2J" in said


def test_one_that_was_withdrawn_is_none() -> None:
    assert audited(index(beta=[KNOWN | {"withdrawn": "2026-01-01T00:00:00Z"}]))[0] == 0


def test_one_that_was_accepted_is_named_and_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ACCEPTED", {"CVE-2026-1": "not called"})
    status, said = audited(index(alpha=[KNOWN]))
    assert status == 0
    assert "accepted: alpha 1.0" in said


def refuses(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route")


@pytest.mark.parametrize(
    "answer",
    [
        refuses,
        lambda _: httpx.Response(404, text="nothing here"),
        lambda _: httpx.Response(200, text="<html>"),
        lambda _: httpx.Response(200, json={"info": {}}),
        lambda _: httpx.Response(200, json=[]),
    ],
    ids=["unreachable", "not found", "no JSON", "no advisories", "another shape"],
)
def test_a_service_that_is_not_there_fails_nothing_and_is_said(
    answer: Callable[[httpx.Request], httpx.Response],
) -> None:
    status, said = audited(answer)
    assert status == 0
    assert said.startswith("audit: NOT DONE")
    assert "\n" not in said


@pytest.mark.parametrize("url", ["http://[", "file:///opt/wheels", "https://host:port/simple"])
def test_an_index_of_another_kind_fails_nothing(url: str) -> None:
    auditor = Auditor(url)
    try:
        status, lines = report(auditor, PINNED)
    finally:
        auditor.close()
    assert status == 0
    assert lines[0].startswith("audit: NOT DONE")


def test_a_version_of_which_nothing_is_said_hides_no_other() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(404) if "beta" in request.url.path else index(alpha=[KNOWN])(request)

    status, said = audited(answer)
    assert status == 1
    assert "NOT DONE for 1 versions" in said


def test_an_index_without_advisories_is_asked_once() -> None:
    asked = []
    audited(lambda request: asked.append(request) or httpx.Response(404))
    assert len(asked) == 1


@pytest.mark.parametrize("index_url", ["https://host/simple", "https://host/simple/", "https://host/", "https://host"])
def test_pages_are_found_beside_the_index(index_url: str) -> None:
    assert pages_of(index_url) == "https://host/pypi"


def test_every_version_of_the_lock_is_asked_about() -> None:
    text = LOCK.read_text(encoding="utf-8")
    entries = re.findall(r"^[a-zA-Z0-9]", text, re.MULTILINE)
    assert len(locked(text)) == len(entries) > 50


def test_everything_that_is_locked_has_hashes() -> None:
    for entry in re.split(r"\n(?=[a-zA-Z0-9])", LOCK.read_text(encoding="utf-8").strip()):
        assert "--hash=sha256:" in entry, entry.split("\n")[0]
