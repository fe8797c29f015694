"""Builds the image of manifests/image without Docker, and runs it as the Deployment does.

    make image                           # build it and test it
    python -m tests.e2e.image [TAG]      # build it and say where it is: in buildah's store below the cache

buildah builds in a chroot, which needs root but neither a daemon nor user namespaces; the Python that the Dockerfile
starts from is Debian's, which mmdebstrap makes an image of (once). What is built is the Dockerfile as it stands, with
that image and its digest as build arguments. pip's settings of this machine (index, certificates, proxy) are used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.build import cache

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "manifests" / "image" / "Dockerfile"
TAG = "localhost/waggle:built"
#: As in the Deployment and in the Dockerfile.
USER = "65532:65532"
_BASE = "localhost/waggle-base:bookworm"
_PACKAGES = "python3-venv,python3-pip,python-is-python3,ca-certificates"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
#: $1 is the image's root, $2 a folder that is to be seen in it under its own name; then comes the command.
_RUN = """
set -eu
image=$1 shown=$2
shift 2
mount --bind "$image" "$image"
mount --rbind /dev "$image/dev"
mount -t tmpfs tmpfs "$image/tmp"
mkdir -p "$image$shown"
mount --bind "$shown" "$image$shown"
mount -o remount,bind,ro "$image"
exec chroot --userspec={user} "$image" /usr/bin/env -i PATH=/opt/waggle/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 "$@"
"""


class ImageError(RuntimeError):
    """The image cannot be built or run here; the message says what is missing or what failed."""


def missing() -> str:
    """What this machine lacks for it, "" if nothing."""
    tools = [tool for tool in ("buildah", "mmdebstrap", "unshare", "chroot") if shutil.which(tool) is None]
    if tools:
        return f"{', '.join(tools)} (on Debian: apt-get install buildah mmdebstrap)"
    if os.geteuid() != 0:
        return "the rights of root"
    allowed = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0
    return "" if allowed else "the right to mount"


def build(tag: str = TAG) -> Path:
    """Builds it; the folder that the image's file system is in. Raises ImageError."""
    if lacks := missing():
        raise ImageError(f"building the image needs {lacks}")
    store = cache() / "image"
    store.mkdir(parents=True, exist_ok=True)
    _buildah("rm", "--all")
    if _BASE not in _buildah("images", "--format", "{{.Name}}:{{.Tag}}"):
        _make_base(store / "base.tar")
    with tempfile.TemporaryDirectory() as settings:
        pip = Path(settings) / "pip.conf"
        pip.write_text(_pip_settings(), encoding="utf-8")
        seen = [(pip, "/etc/pip.conf"), (_CERTIFICATES, str(_CERTIFICATES))]
        volumes = [word for path, place in seen if path.exists() for word in ("--volume", f"{path}:{place}:ro")]
        base = ["--build-arg", f"PYTHON_IMAGE={_BASE}", "--build-arg", f"PYTHON_DIGEST={_digest(_BASE)}"]
        _buildah("bud", "--isolation=chroot", *base, *volumes, "-f", str(DOCKERFILE), "-t", tag, str(ROOT))
    _buildah("rmi", "--prune")
    container = _buildah("from", "--pull-never", tag).strip()
    return Path(_buildah("mount", container).strip())


def inspect(tag: str = TAG, *, field: str) -> str:
    """One field of the image's configuration, by the path that buildah's templates have for it."""
    return _buildah("inspect", "--type=image", "--format", "{{" + field + "}}", tag).strip()


def command(image: Path, *said: str, shown: Path | None = None) -> list[str]:
    """Runs something in the image's read-only file system, as its user and with no capability.

    `shown` is a folder of this machine that is there, too.
    """
    script = _RUN.replace("{user}", USER)
    words = [
        shutil.which("unshare") or "unshare",
        "--mount",
        "--propagation=private",
        "setpriv",
        "--no-new-privs",
        "sh",
        "-c",
        script,
        "sh",
    ]
    return [*words, str(image), str(shown or image / "srv"), *said]


def _make_base(archive: Path) -> None:
    _do(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(archive)])
    container = _buildah("from", "scratch").strip()
    _buildah("add", "--quiet", container, str(archive), "/")
    _buildah("commit", "--quiet", "--rm", container, _BASE)
    archive.unlink()


def _digest(image: str) -> str:
    return _buildah("images", "--format", "{{.Digest}}", image).strip()


def _pip_settings() -> str:
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], check=False, capture_output=True, text=True
    )
    index = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip()
    lines = [f"index-url = {index}"] if index else []
    return "\n".join(["[global]", f"cert = {_CERTIFICATES}", *lines, ""])


def _buildah(*words: str) -> str:
    store = cache() / "image"
    places = ["--root", str(store / "store"), "--runroot", str(store / "run"), "--storage-driver", "vfs"]
    return _do(["buildah", *places, *words])


def _do(words: Sequence[str]) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ImageError(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}"[-4000:])
    return done.stdout


def main() -> int:
    tag = sys.argv[1] if len(sys.argv) > 1 else TAG
    try:
        image = build(tag)
        sys.stdout.write(_do(command(image, "waggle", "version")))
    except ImageError as error:
        sys.stderr.write(f"image: {error}\n")
        return 2
    sys.stdout.write(f"{tag} is built, and runs as {USER} with a read-only file system: {image}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
