"""The console scripts: Ctrl-C at any moment, also before the program is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
sys.argv[1:] = ["--version"]
from extender.entry import {script}
{script}()
"""


@pytest.mark.parametrize("script", ["main", "kubectl_main"])
@pytest.mark.parametrize("module", ["extender.cli", "extender.operate.commands"])
def test_an_interrupt_while_it_is_loaded_leaves_no_traceback(script, module):
    code = INTERRUPTED.format(module=module, script=script)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_without_one_it_runs():
    code = INTERRUPTED.format(module="nothing.at.all", script="main")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0
    assert run.stdout.startswith("waggle ")
