"""The page of a moment of a recording, in a headless Chromium: it says what it shows, and stands still."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from extender.operate.replay_look import frozen_app
from extender.replay.frozen import freeze
from extender.replay.logs import open_log
from extender.replay.moments import parse
from extender.settings import ServerSettings, Settings
from extender.web.http.server import serve_in_thread
from tests.integration.web.test_page_for_everybody import CUT_OFF, OVERLAPS, violations
from tests.support.engine.scripted_log import two_nodes
from tests.support.http.browser import ABSENT, CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    frozen = freeze(open_log(two_nodes().write(tmp_path_factory.mktemp("log") / "a.log")), parse("+4m"), usage=True)
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(frozen_app(frozen, settings), settings) as server:
        yield server.url


def test_the_banner_says_which_moment_it_is(url: str, browser: Browser) -> None:
    for dark in (False, True):
        browser.dark(dark)
        browser.open(f"{url}/ui")
        browser.wait("document.body.dataset.connection === 'frozen'")
        assert violations(browser) == []

    assert browser.text("#replay") == "replay of a.log at +4m0s, after event 15, read-only"
    assert browser.text("#connection-text") == "frozen"
    assert "Plan" not in browser.text("#views")
    assert browser.run(CUT_OFF) == []
    assert browser.run(OVERLAPS) == []
