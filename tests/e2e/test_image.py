"""The image that is shipped: built from its Dockerfile, and run as the Deployment runs it, in front of a real cluster.

`make image` runs these; they take minutes, and need buildah, mmdebstrap and root.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.e2e import image
from tests.e2e.cluster import ControlPlane
from tests.e2e.processes import free_port
from tests.e2e.world import world

pytestmark = pytest.mark.skipif("WAGGLE_E2E_IMAGE" not in os.environ, reason="make image runs them")


@pytest.fixture(scope="module")
def built() -> Path:
    return image.build()


def run(built: Path, *said: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(image.command(built, *said), check=False, capture_output=True, text=True, timeout=60)


def test_it_says_what_it_is(built: Path) -> None:
    assert run(built, "waggle", "version").stdout.startswith("waggle ")
    assert "--config" in run(built, "waggle", "serve", "--help").stdout


def test_it_is_started_as_a_user_without_rights(built: Path) -> None:
    assert image.inspect(field=".OCIv1.Config.User") == image.USER
    assert image.inspect(field=".OCIv1.Config.Entrypoint") == "[waggle]"
    assert run(built, "python", "-c", "import os; print(os.getuid(), os.getgid())").stdout == "65532 65532\n"


def test_nothing_of_it_can_be_written(built: Path) -> None:
    tried = run(built, "python", "-c", "open('/opt/waggle/x', 'w')")
    assert "Read-only file system" in tried.stderr


def test_what_is_for_development_is_not_in_it(built: Path) -> None:
    for module in ("pip", "pytest", "hypothesis", "tests"):
        assert "ModuleNotFoundError" in run(built, "python", "-c", f"import {module}").stderr, module


@pytest.fixture
def mounted() -> Iterator[Path]:
    """A folder that anybody can read, as a mount is; pytest's own are for their owner only."""
    with tempfile.TemporaryDirectory(prefix="waggle-image-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_it_schedules_pods(built: Path, mounted: Path, plane: ControlPlane, programs: Mapping[str, Path]) -> None:
    with world(plane, programs, waggle=False, folder="image") as w:
        port = free_port()
        kubeconfig = plane.portable_kubeconfig("waggle", mounted / "kubeconfig")
        settings = {"server": {"port": port}, "cluster": {"kubeconfig": str(kubeconfig)}}
        (mounted / "waggle.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        said = ["waggle", "serve", "--config", str(mounted / "waggle.yaml")]
        w.run("waggle-image", image.command(built, *said, shown=mounted))
        w.waggle_url = w.gate.extender = f"http://127.0.0.1:{port}"
        w.nodes(1)
        w.pod("p", gpus=1)
        assert w.place("p") == "n0"
