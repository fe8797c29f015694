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


@pytest.mark.parametrize(
    ("option", "status"), [("--version", 0), pytest.param("--no-such-option", 2, marks=pytest.mark.slow)]
)
def test_a_thread_that_does_not_end_is_named_and_does_not_hold_up_the_end(option, status):
    code = f"""
import sys, threading
from extender import entry
threading.Thread(target=threading.Event().wait, name="of a plug-in").start()
entry._PATIENCE = 0.1
sys.argv[1:] = [{option!r}]
entry.main()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == status
    assert "threads that a plug-in has started do not end, and are ended: 'of a plug-in'" in run.stderr
    assert run.stdout.startswith("waggle ") == (status == 0)


def test_without_one_it_runs():
    code = INTERRUPTED.format(module="nothing.at.all", script="main")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0
    assert run.stdout.startswith("waggle ")


def test_a_command_that_asks_a_server_imports_neither_the_settings_nor_the_algorithms():
    code = "import sys; from extender import cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {"extender.settings", "algorithm.registry", "algorithm.interface", "pydantic"} & set(done.stdout.split())
    assert not found, "each command would start later, by 40 ms of CPU time"
