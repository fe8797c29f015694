"""Recordings of random lives, with every fault: whatever happened, it can be measured and simulated again."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.operate.replay_compare import text_of
from extender.replay.comparing import runs_of
from extender.replay.counterfactual import Other, counterfactual
from extender.replay.logs import open_log
from extender.replay.timeline import timeline
from tests.support.engine.lives import lives

_LEVELS = ("waiting_jobs", "waiting_pods", "running_jobs", "gpu_running_milli", "gpu_allocated_milli", "nodes")
_ROUNDING = 1e-6


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
@pytest.mark.parametrize("seed", [3])
def test_a_random_life_is_measured_and_simulated(algorithm: str, seed: int, tmp_path: Path) -> None:
    for number, life in enumerate(lives(algorithm, seed=seed)):
        path = tmp_path / f"{number}.log"
        path.write_bytes(life.log)
        log = open_log(path)
        found = counterfactual(log, Other("fgd"))

        for point in found.recorded.series.points:
            assert all(getattr(point, level) >= -_ROUNDING for level in _LEVELS), point
            assert point.gpu_running_milli <= point.gpu_allocated_milli + _ROUNDING <= point.gpu_milli + 2 * _ROUNDING
        assert len(found.recorded.jobs) == len(found.baseline.jobs) == len(found.other.jobs)
        assert [job.name for job in found.recorded.jobs] == [job.name for job in found.other.jobs]
        assert log.name in text_of(found, log)
        assert timeline(runs_of(found), found.horizon, "a life").startswith("<svg")
