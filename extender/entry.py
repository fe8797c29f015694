"""The console scripts `waggle` and `kubectl-waggle`.

A Ctrl-C while the program is still being loaded ends it as a later one does: with status 130, and without a traceback.
"""

from __future__ import annotations

#: Of a program that Ctrl-C ends: docs/exit-status.md.
_INTERRUPTED = 130


def main() -> None:
    """The console script `waggle`."""
    _run("main")


def kubectl_main() -> None:
    """The plug-in of kubectl, `kubectl waggle`."""
    _run("kubectl_main")


def _run(name: str) -> None:
    try:
        from extender import cli

        getattr(cli, name)()
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
