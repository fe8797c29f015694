"""What a container may still take, as its control group says."""

from __future__ import annotations

from pathlib import Path

from extender.server.plans.memory import left

MIB = 1 << 20


def group(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_version_2_with_pages_that_can_be_given_back(tmp_path: Path) -> None:
    files = {"memory.max": f"{512 * MIB}\n", "memory.current": f"{300 * MIB}\n"}
    assert left(group(tmp_path, files)) == 212 * MIB
    stat = f"anon {200 * MIB}\ninactive_file {40 * MIB}\n"
    assert left(group(tmp_path, {"memory.stat": stat})) == 252 * MIB


def test_version_1(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": str(512 * MIB),
        "memory/memory.usage_in_bytes": str(500 * MIB),
        "memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {8 * MIB}\n",
    }
    assert left(group(tmp_path, files)) == 20 * MIB


def test_no_limit(tmp_path: Path) -> None:
    assert left(tmp_path) is None
    assert left(group(tmp_path, {"memory.max": "max\n", "memory.current": "5\n"})) is None
    no_limit = {"memory/memory.limit_in_bytes": str((1 << 63) - 4096), "memory/memory.usage_in_bytes": "5"}
    assert left(group(tmp_path, no_limit)) is None


def test_never_less_than_nothing(tmp_path: Path) -> None:
    assert left(group(tmp_path, {"memory.max": "5", "memory.current": "9"})) == 0
