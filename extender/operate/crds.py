"""Writes the CustomResourceDefinitions of Waggle's resources into manifests/crds, generated from the models.

    python -m extender.operate.crds [FOLDER]

A test compares the folder with the models. If it reports a difference, run this.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from extender.resources.definitions import definitions

_HEAD = "# Generated from extender/resources: change the models, then run `python -m extender.operate.crds`.\n"
_FOLDER = Path(__file__).parents[2] / "manifests" / "crds"


def files() -> dict[str, str]:
    """Return the text of each file, by its name."""
    return {
        f"{plural}.yaml": _HEAD + yaml.safe_dump(definition, sort_keys=False, width=120)
        for plural, definition in definitions().items()
    }


def main(arguments: Sequence[str]) -> int:
    """Write all files into the folder. Return the exit status."""
    folder = Path(arguments[0]) if arguments else _FOLDER
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
