"""How somebody who runs the demo calls the command `waggle`: the lines that the demo prints must work when pasted."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def own_command() -> str:
    """Return `waggle` if the shell finds this installation's command by that name, and else what to write instead."""
    beside = Path(sys.executable).with_name("waggle")
    if not beside.exists():
        return shlex.join([sys.executable, "-m", "extender.cli"])
    found = shutil.which("waggle")
    if found is not None and Path(found).samefile(beside):
        return "waggle"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))
