"""Where a run of the e2e tests keeps its data and the logs of every component: one folder a run, the last few kept.

A folder is locked as long as its run lives, by a lock that ends with the process: what a crashed run left behind is
removed by a later one, what a running one needs is not.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.build import cache

#: Runs that have ended, of which the folders are kept.
KEPT = 3


@contextmanager
def run_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder for this run. Only its logs stay: data and private keys go at the end."""
    runs = parent or cache() / "runs"
    folder = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _prune(runs)
        try:
            yield folder
        finally:
            for private in ("etcd", "certificates"):
                shutil.rmtree(folder / private, ignore_errors=True)


def _prune(runs: Path) -> None:
    ended = [folder for folder in sorted(runs.iterdir()) if not _is_live(folder)]
    for folder in ended[:-KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


def _is_live(folder: Path) -> bool:
    try:
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
