"""Traces of real clusters as workloads: `load` reads the files that a user gives, of any of the formats in FORMATS.

Nothing of a trace comes with Waggle. Formats are recognised by what the files begin with. What an importer leaves out
or assumes is in `Workload.remarks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from extender.lab.importers import azure, helios, openb, own, pai, philly, spot
from extender.lab.importers.detection import Found, files, nearest, recognise
from extender.lab.importers.registry import Format
from extender.lab.tables import Problems, TraceError
from extender.lab.workload import Workload

#: By name, in the order in which files are compared with them.
FORMATS = {module.FORMAT.name: module.FORMAT for module in (openb, pai, philly, helios, spot, azure, own)}


def load(paths: Path | Sequence[Path], format: str | None = None, *, skip_broken: bool = False) -> Workload:  # noqa: A002
    """Read a trace from its files, in any order, or from folders with them.

    `format` is one of FORMATS; without it, it is recognised. In folders, files that are no part of a trace are passed
    over. `skip_broken` leaves broken lines out and tells of them in the remarks. Raises OSError, and TraceError
    naming file, line, column, and what was expected.
    """
    given = [paths] if isinstance(paths, Path) else list(paths)
    chosen = _chosen(format)
    found: list[Found] = []
    for path, named in files(given):
        each = recognise(path, chosen)
        if each is not None:
            found.append(each)
        elif named:
            raise TraceError(f"{path}: expected a file of {_named(chosen)}{nearest(path, chosen)}")
    if not found:
        raise TraceError(f"{', '.join(map(str, given))}: expected files of {_named(chosen)}, got none")
    return _read(found, given, Problems(skip=skip_broken))


def _chosen(name: str | None) -> list[Format]:
    if name is None:
        return list(FORMATS.values())
    if name not in FORMATS:
        raise TraceError(f"expected one of the formats {', '.join(FORMATS)}, got {name}")
    return [FORMATS[name]]


def _read(found: list[Found], given: list[Path], problems: Problems) -> Workload:
    formats = {each.format.name: each.format for each in found}
    if len(formats) != 1:
        what = f"files of {' and '.join(formats)}"
        raise TraceError(f"{', '.join(map(str, given))}: expected files of one format, got {what}")
    form = next(iter(formats.values()))
    if problems.skip and form is own.FORMAT:
        raise TraceError(
            f"{', '.join(map(str, given))}: a workload of Waggle has no lines to leave out (--skip-broken)"
        )
    paths: dict[str, Path] = {}
    for each in found:
        if each.part.name in paths:
            raise TraceError(f"{each.path}: expected one file with {each.part.name}, got {paths[each.part.name]}, too")
        paths[each.part.name] = each.path
    missing = [part for part in form.parts if part.needed and part.name not in paths]
    if missing:
        names = ", ".join(f"{part.name} ({_looks(part.columns, part.beginning)})" for part in missing)
        raise TraceError(f"{', '.join(map(str, given))}: expected also a file of {form.title} with {names}")
    return form.read(paths, problems)


def _looks(columns: tuple[str, ...], beginning: str) -> str:
    return beginning or f"columns {', '.join(columns)}"


def _named(formats: list[Format]) -> str:
    return " or ".join(each.name for each in formats)
