"""One small recording for all tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.replay.logs import Log, open_log
from tests.support.engine.scripted_log import two_nodes


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return open_log(two_nodes().write(Path(tmp_path_factory.mktemp("log")) / "waggle.log"))
