"""Applies a changed configuration while the server runs, as far as possible: the algorithm's settings.

                        look: the file changed, stays so, and can be used
    using a configuration --------------------------------------------------> using the new one
         |        ^  ^                                                         (what needs a restart is named)
         |        |  | look: the file is the old one again, or has become usable
         v        |
    using it, and complaining   <-- look: the file cannot be read, its settings are wrong, or the algorithm made of
                                    them fails at what is there

A separate thread creates the new algorithm and loads the state into it, beside the algorithm that decides. Then the new
one takes over under the engine's lock (`scheduling/reconfiguration.py`). A file that cannot be used changes nothing; it
is reported in the log, in the metrics and in /readyz for as long as it cannot be used.

Files are compared by content, every `algorithm.reload_seconds`: that works for every kind of volume, and for swapped
links. A signal (`request`) makes the thread check them at once.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import AlgorithmError, create
from extender.core.said import said_by
from extender.scheduling.events import AlgorithmPrepared, PrepareAlgorithm, Reconfigured, ReconfigureRequested
from extender.server.guard import ends_process
from extender.server.loop import SLICE
from extender.server.runtime import Runtime
from extender.server.views import Metric
from extender.settings import Settings, SettingsError, merged_settings, parse, read_text

log = structlog.get_logger(__name__)

#: Characters of the text of an exception.
_LONGEST_TEXT = 500
#: How many rounds load a new algorithm with the changes of meanwhile; the rest is loaded under the lock.
_ROUNDS = 5
#: Seconds between two checks whether the state is synced, while a requested check waits for that.
_INFORMED_SECONDS = 1.0
#: How many changes are named in the log.
_NAMED = 50
#: The fields that are applied without a restart; all others need one.
_LIVE = ("algorithm.settings", "algorithm.settings_file")


class _Contents(NamedTuple):
    """The text of the configuration, and of the settings file that it names ("" if none)."""

    config: str
    settings: str


class Reconfiguration:
    """Watches the configuration file and applies changes.

    `used` are the algorithm's settings that are in use now. Without a `config` there is no file to check.
    """

    def __init__(self, runtime: Runtime, settings: Settings, used: Mapping[str, Any], config: Path | None) -> None:
        self._runtime = runtime
        self._started_with = settings
        self._used = used
        self._config = config
        self._every = settings.algorithm.reload_seconds
        self._parsed: tuple[str | None, Settings] = (None, settings)
        #: The contents read last, or why they could not be read; the contents tried last, and why they cannot be used
        #: ("" if they are in use).
        self._seen: _Contents | str = ""
        self._judged: _Contents | None = None
        self._verdict = ""
        self._failure = ""
        self._restart: list[str] = []
        self._reloads = {"done": 0, "failed": 0}
        self._number = 0
        self._lock = threading.Lock()
        self._asked = False
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waggle-reconfiguration", daemon=True)

    @property
    def used(self) -> Mapping[str, Any]:
        """The algorithm's settings that are in use, with those of `settings_file`."""
        return self._used

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._config is not None:
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()

    def request(self) -> None:
        """Check the files as soon as possible, in the thread of this object. Safe in a signal handler."""
        self._asked = True
        self._wanted.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wanted.clear()
            asked, self._asked = self._asked, False
            if asked or self._every:
                try:
                    self.look(at_once=asked)
                except Exception as error:
                    log.exception("looking at the configuration failed")
                    self._failure = f"looking at it failed: {type(error).__name__}: {error}"
            self._wanted.wait(_INFORMED_SECONDS if self._asked else self._every or None)

    # -- looking --------------------------------------------------------------------------------------------------

    def look(self, *, at_once: bool = False) -> None:
        """Apply the file if it changed and can be used.

        `at_once`: apply it whatever was found before. Otherwise apply only contents that were the same at the last
        look: a file may be half written, and two files are not written at the same moment.
        """
        if self._config is None:
            return
        if not self._runtime.informed().ready:
            self._asked |= at_once
            return
        with self._lock:
            try:
                settings, contents = self._read(self._config)
            except SettingsError as error:
                self._complain(str(error), at_once=at_once)
                return
            again, self._seen = contents == self._seen, contents
            fresh = contents != self._judged
            if at_once or (fresh and (again or self._judged is None)):
                self._judge(settings, contents)
            elif not fresh:
                self._failure = self._verdict

    def _read(self, config: Path) -> tuple[Settings, _Contents]:
        """Read and parse the files. Raises SettingsError."""
        text = _read_again(config, str(config))
        if text != self._parsed[0]:
            self._parsed = (text, parse(text, config))
        settings = self._parsed[1]
        file = settings.algorithm.settings_file
        return settings, _Contents(text, _read_again(file, "algorithm.settings_file") if file is not None else "")

    def _complain(self, why: str, *, at_once: bool) -> None:
        """Report why the files cannot be read: at once, or if the second look finds the same."""
        again, self._seen = self._seen == why, why
        if (again or at_once) and why != self._failure:
            self._fail(why)

    def _fail(self, why: str) -> None:
        self._failure = why
        self._reloads["failed"] += 1
        log.error("the new configuration cannot be used, the old one is kept", why=why)

    # -- taking into use ------------------------------------------------------------------------------------------

    def _judge(self, settings: Settings, contents: _Contents) -> None:
        try:
            self._verdict = self._use(settings, contents)
        except (SettingsError, AlgorithmError) as error:
            self._verdict = str(error)
        except BaseException as error:  # of an algorithm's author, who may call sys.exit
            if ends_process(error):
                raise
            self._verdict = f"the algorithm cannot be made: {said_by(error, _LONGEST_TEXT)}"
        self._judged = contents
        if self._verdict:
            self._fail(self._verdict)
            return
        self._failure = ""
        restart = _changed(self._started_with, settings)
        if restart and restart != self._restart:
            log.warning("the configuration has changes that need a restart", fields=restart)
        self._restart = restart

    def _use(self, settings: Settings, contents: _Contents) -> str:
        """Apply the settings. Returns why they cannot be used, "" if they are. Raises SettingsError, AlgorithmError."""
        wanted = settings.algorithm
        if wanted.name != self._started_with.algorithm.name:
            return ""
        used = wanted.settings if wanted.settings_file is None else merged_settings(wanted, contents.settings)
        if used == self._used:
            return ""
        began = time.monotonic()
        answer = self._replace(create(wanted.name, used), wanted.name, used)
        if answer.refused:
            return answer.refused
        self._used = used
        self._reloads["done"] += 1
        _forget_the_old()
        log.info(
            "algorithm reconfigured",
            seconds=round(time.monotonic() - began, 3),
            changes=len(answer.changes),
        )
        for change in answer.changes[:_NAMED]:
            log.info("changed by that", what=change)
        return ""

    def _replace(self, algorithm: SchedulerAlgorithm, name: str, used: dict[str, Any]) -> Reconfigured:
        self._number += 1
        preparations = self._runtime.preparations
        for _ in range(_ROUNDS):
            wanted = self._runtime.ask(ReconfigureRequested(self._number, name, used))
            if not isinstance(wanted, PrepareAlgorithm):
                break
            if preparations.carry_out(wanted, lambda _name, _settings: algorithm) <= SLICE:
                break
        answer = self._runtime.ask(AlgorithmPrepared(self._number))
        return answer if isinstance(answer, Reconfigured) else Reconfigured(self._number, "the server has failed")

    # -- reporting ------------------------------------------------------------------------------------------------

    def readiness_warning(self) -> str:
        """Return what an operator must act on, for /readyz; empty if there is nothing."""
        failure, restart = self._failure, self._restart
        remarks = [f"the new configuration cannot be used, the old one is kept: {failure}"] if failure else []
        if restart:
            remarks.append(f"changes of the configuration that need a restart: {', '.join(restart)}")
        return "; ".join(remarks)

    def metrics(self) -> list[Metric]:
        watched = self._config is not None
        return [
            Metric(
                "waggle_configuration_reloads_total",
                "counter",
                "Changed configurations that were taken into use, or could not be.",
                [({"result": result}, float(count)) for result, count in self._reloads.items()] if watched else [],
            ),
            Metric(
                "waggle_configuration_reload_failing",
                "gauge",
                "1 while the configuration file cannot be used and an older one is in use.",
                [({}, float(bool(self._failure)))] if watched else [],
            ),
            Metric(
                "waggle_configuration_restart_needed",
                "gauge",
                "Fields of the configuration file that differ from what the server was started with.",
                [({}, float(len(self._restart)))] if watched else [],
            ),
        ]


def _read_again(path: Path, field: str) -> str:
    """Read a file again. Raises SettingsError, also for a pipe: at the start it works like a file, but a second read
    would block for ever."""
    if path.exists() and not path.is_file():
        raise SettingsError(f"{field}: {path} is no regular file, so it cannot be looked at again")
    return read_text(path, field)


def _changed(old: Settings, new: Settings) -> list[str]:
    """Return the fields that differ, without those that are applied without a restart."""
    before, after = dict(_fields(old.model_dump())), dict(_fields(new.model_dump()))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return sorted(name for name in names if not name.startswith(_LIVE))


def _fields(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, Mapping) and f"{prefix}{key}" not in _LIVE:
            yield from _fields(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _forget_the_old() -> None:
    """Collect the old algorithm's objects. They are full of cycles, and were frozen at the start, when all objects were
    excluded from garbage collection."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
