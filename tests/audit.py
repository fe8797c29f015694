"""Asks the package index whether a version in requirements.lock has a known vulnerability.

    python -m tests.audit            (`make audit`)

The index's JSON pages (`/pypi/NAME/VERSION/json`) have the advisories of the Python Packaging Advisory Database: what
pip-audit reads, too. pip-audit itself asks one fixed host and brings two dozen packages that nobody has locked; this
asks the index that pip is configured with, and needs nothing more than the tests do.

Exit status: 0 nothing known, or nobody to ask (which is said in one line); 1 a locked version has a known
vulnerability.
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from extender.logs.printable import printable

LOCK = Path(__file__).parents[1] / "requirements.lock"
#: Advisories that do not concern Waggle, by ID, each with its reason. They are named in the output.
ACCEPTED: dict[str, str] = {}

_DEFAULT_INDEX = "https://pypi.org/simple"
_SECONDS = 15.0
_SECONDS_IN_ALL = 90.0
_AT_ONCE = 4
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class Pinned(NamedTuple):
    name: str
    version: str


@dataclass(frozen=True)
class Advisory:
    """One known vulnerability of one locked version. `ids` begins with its own, then come its other names."""

    pinned: Pinned
    ids: tuple[str, ...]
    fixed_in: tuple[str, ...]
    summary: str

    def __str__(self) -> str:
        mended = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "no fixed version"
        text = f"{self.pinned.name} {self.pinned.version}: {', '.join(self.ids)}, {mended}: {self.summary}"
        return printable(text, 400)


class Unreachable(Exception):
    """The index cannot be asked; the message says why."""


def locked(text: str) -> list[Pinned]:
    """Every version that a lock file names."""
    return [Pinned(*found) for found in _PINNED.findall(text)]


def pages_of(index: str) -> str:
    """Where an index that serves `/simple` has its JSON pages."""
    return re.sub(r"/(simple/?)?$", "", index) + "/pypi"


class Auditor:
    """Asks for one version after the other. `transport` stands in for the network in tests."""

    def __init__(self, index: str, transport: httpx.BaseTransport | None = None) -> None:
        trusted = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
        self._client = httpx.Client(timeout=_SECONDS, transport=transport, follow_redirects=True, verify=trusted)
        self._pages = pages_of(index)

    def advisories(self, pinned: Iterable[Pinned]) -> tuple[list[Advisory], int]:
        """What is known of all of them, and of how many the index has said nothing.

        Raises Unreachable if it says nothing of the first: then it is not asked about the others.
        """
        first, *others = pinned
        found, silent = self.of(first), 0
        give_up = time.monotonic() + _SECONDS_IN_ALL
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for several in pool.map(lambda each: self._of_or_none(each, give_up), others):
                found += several or []
                silent += several is None
        return found, silent

    def _of_or_none(self, pinned: Pinned, give_up: float) -> list[Advisory] | None:
        with suppress(Unreachable):
            return self.of(pinned) if time.monotonic() < give_up else None
        return None

    def of(self, pinned: Pinned) -> list[Advisory]:
        """Raises Unreachable."""
        what = f"{pinned.name} {pinned.version}"
        try:
            answer = self._client.get(f"{self._pages}/{pinned.name}/{pinned.version}/json")
            body = answer.json() if answer.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"{type(error).__name__} for {what}") from error
        except ValueError as error:
            raise Unreachable(f"no JSON for {what}") from error
        if not isinstance(body, dict) or not isinstance(body.get("vulnerabilities"), list):
            raise Unreachable(f"status {answer.status_code} for {what}, and no advisories")
        return [_advisory(pinned, each) for each in body["vulnerabilities"] if not each.get("withdrawn")]

    def close(self) -> None:
        self._client.close()


def _advisory(pinned: Pinned, told: dict[str, Any]) -> Advisory:
    ids = dict.fromkeys([str(told.get("id", "no ID")), *map(str, told.get("aliases") or ())])
    summary = told.get("summary") or told.get("details") or "no description"
    return Advisory(pinned, tuple(ids), tuple(map(str, told.get("fixed_in") or ())), str(summary))


def report(auditor: Auditor, pinned: list[Pinned]) -> tuple[int, list[str]]:
    """Exit status, and what to say."""
    try:
        found, silent = auditor.advisories(pinned)
    except Unreachable as error:
        return 0, [f"audit: NOT DONE, the package index has nobody to ask about vulnerabilities ({error})"]
    open_ones = [each for each in found if not set(each.ids) & ACCEPTED.keys()]
    lines = [f"audit: {each}" for each in open_ones]
    lines += [f"audit: accepted: {each}" for each in found if each not in open_ones]
    if silent:
        lines.append(f"audit: NOT DONE for {silent} versions, of which the package index has said nothing")
    lines.append(f"audit: {len(pinned) - silent} locked versions, {len(open_ones)} known vulnerabilities")
    return int(bool(open_ones)), lines


def configured_index() -> str:
    """The index that pip uses here."""
    if given := os.environ.get("PIP_INDEX_URL"):
        return given
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip() or _DEFAULT_INDEX


def main() -> int:
    auditor = Auditor(configured_index())
    try:
        status, lines = report(auditor, locked(LOCK.read_text(encoding="utf-8")))
    finally:
        auditor.close()
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
