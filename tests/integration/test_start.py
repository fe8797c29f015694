"""What `waggle serve` imports until it is ready: nothing that no verb and no probe needs. Time is not measured here."""

from __future__ import annotations

import pytest

from extender.embedded.apiserver.server import serve_in_thread
from tests.bench.start import Start, start

#: Packages that no first answer needs, and what they are for.
LATER = {
    "fastapi": "pages",
    "starlette": "pages",
    "anyio": "pages",
    "extender.web.app": "pages",
    "extender.web.pages.inspect": "pages",
    "extender.web.ui": "pages",
    "rich": "texts on a terminal",
    "attr": "rich",
    "h2": "HTTP/2, which needs TLS",
    "cryptography": "TLS",
    "extender.embedded": "other commands",
    "extender.demo": "other commands",
    "extender.operate.scheduler_config": "other commands",
    "extender.operate.lint": "other commands",
    "algorithm.hived": "another algorithm",
    "algorithm.placements": "vpods",
    "extender.vpods": "vpods",
    "extender.server.vpods": "vpods",
    "extender.server.claims": "claims",
    "extender.resources": "custom resources",
}


@pytest.fixture(scope="module")
def started() -> Start:
    with serve_in_thread() as cluster:
        return start(cluster.url)


@pytest.mark.parametrize("package", LATER)
def test_what_no_first_answer_needs_is_not_imported(started: Start, package: str) -> None:
    found = [name for name in started.modules if name == package or name.startswith(f"{package}.")]
    assert not found, f"{package} is for {LATER[package]}: `python -X importtime` says who imports it"


def test_what_a_verb_needs_is_there(started: Start) -> None:
    assert {"extender.web.verbs.handler", "extender.web.pages.probes", "algorithm.packing.algorithm"} <= started.modules


def test_the_number_of_modules_does_not_creep_up(started: Start) -> None:
    assert len(started.modules) < 750
