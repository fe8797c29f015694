"""Files that cannot become larger: what a full disk does to a writer, without a disk."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let a write beyond so many bytes of a file fail within this, with EFBIG (Python ignores the signal)."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python does not notice that a compiled module was written in part, and could not import it from then on.
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
        sys.dont_write_bytecode = compiles
