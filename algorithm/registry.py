"""Finds algorithms by the entry-point group `waggle.algorithms`. An installed algorithm is not active by itself.

A plug-in is a `Plugin` object that an installed distribution names in its metadata:

    [project.entry-points."waggle.algorithms"]
    mine = "my_package:PLUGIN"

The operator's configuration names the one to use, with settings that the plug-in's own model checks:

    algorithm:
      name: mine
      settings: {spread: true}

Nothing of a plug-in is imported unless it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from algorithm import plugins
from algorithm.decisions import GangText
from algorithm.interface import SchedulerAlgorithm
from algorithm.reads import Reads
from algorithm.suggest import for_error

GROUP = "waggle.algorithms"
#: The version of algorithm/interface.py that this Waggle speaks; a plug-in says which one it was written for.
API_VERSION = 1

S = TypeVar("S", bound=BaseModel)


class AlgorithmError(ValueError):
    """The configured algorithm cannot be used; the message says what to change."""


@dataclass(frozen=True, kw_only=True)
class Plugin(Generic[S]):
    """What a plug-in exports: how to check the settings and how to make the algorithm from them."""

    settings: type[S]
    create: Callable[[S], SchedulerAlgorithm]
    #: Parses the text of a settings file of its own (`algorithm.settings_file`); None: YAML. Raises ValueError.
    parse: Callable[[str], Any] | None = None
    #: Names of the annotations that the algorithm reads on pods, whatever its settings. Only these are kept in memory,
    #: each up to 16,384 characters and one more. None: all are kept, in full.
    annotations: Collection[str] | None = None
    #: Characters that are read of one of `annotations`, where that is less than 16,384. One more is kept.
    lengths: Mapping[str, int] = field(default_factory=dict)
    #: Names of the annotations that its `Bind` writes and that it reads again. They are kept on pods that have a node.
    #: On other pods their text is empty, whatever the pod's author wrote.
    decisions: Collection[str] = ()
    #: The `decisions` with a part that all pods of a gang share: that part is kept in memory once.
    gang_texts: Mapping[str, GangText] = field(default_factory=dict)
    #: The `decisions` that keep room for other pods. Their text is trusted on pods that this server has bound, or that
    #: were bound before it began to decide. On other pods it is empty. A later change of the text has no effect.
    claims: Collection[str] = ()
    #: Names of the annotations that the algorithm reads on nodes, whatever its settings. None: all are kept.
    node_annotations: Collection[str] | None = None
    #: Where the conformance kit finds the nodes and pods with which it tries the algorithm, as `package.module:NAME` of
    #: an `algorithm.conformance.world.Worlds`. Nothing else imports it. "": plain nodes and pods.
    world: str = ""
    api_version: int = API_VERSION


def available() -> dict[str, EntryPoint]:
    """The installed plug-ins by name, not imported."""
    return plugins.available(GROUP)


def create(name: str, settings: Mapping[str, Any] | None = None) -> SchedulerAlgorithm:
    """The algorithm that the configuration names, made from its settings.

    Raises AlgorithmError if no algorithm has that name, if it was written for another version of the interface, if a
    setting is wrong (the message names each field), or if it would end the process (`sys.exit`); and what it raises.
    """
    plugin, checked = _load(name), check_settings(name, settings)
    with _without_end(f"algorithm {name!r} cannot be made"):
        return plugin.create(checked)


def check_settings(name: str, settings: Mapping[str, Any] | None = None) -> BaseModel:
    """The settings of this algorithm, as its own model reads them. Raises AlgorithmError, as `create` does."""
    plugin = _load(name)
    with _without_end(f"settings of algorithm {name!r}"):
        try:
            checked: BaseModel = plugin.settings.model_validate(dict(settings or {}))
        except ValidationError as error:
            raise AlgorithmError(f"settings of algorithm {name!r}: {explain(error, plugin.settings)}") from error
    return checked


@contextmanager
def _without_end(what: str) -> Iterator[None]:
    """Raise AlgorithmError for what would end the process: a plug-in may call sys.exit()."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise AlgorithmError(f"{what}: {plugins.said(error)}") from error


def parser(name: str) -> Callable[[str], Any] | None:
    """The parser of this algorithm's own settings files; None: they are YAML. Raises AlgorithmError."""
    return _load(name).parse


def reads(name: str) -> Reads:
    """The annotations of pods and nodes that this algorithm reads. Raises AlgorithmError."""
    return reads_of(_load(name))


def reads_of(plugin: Plugin[Any]) -> Reads:
    """The annotations of pods and nodes that the algorithm of this plug-in reads."""
    wishes = None if plugin.annotations is None else frozenset(plugin.annotations)
    of_nodes = None if plugin.node_annotations is None else frozenset(plugin.node_annotations)
    decisions, claims = frozenset(plugin.decisions), frozenset(plugin.claims)
    return Reads(wishes, decisions, claims=claims, of_nodes=of_nodes, lengths=dict(plugin.lengths))


def settings_model(name: str) -> type[BaseModel] | None:
    """The model of this algorithm's settings; None if there is no such algorithm."""
    try:
        return _load(name).settings
    except AlgorithmError:
        return None


def gang_texts(name: str) -> Mapping[str, GangText]:
    """The annotations of this algorithm of which the pods of a gang share a part. Raises AlgorithmError."""
    return _load(name).gang_texts


def _load(name: str) -> Plugin[Any]:
    try:
        return plugins.load(GROUP, "algorithm", name, Plugin, API_VERSION)
    except plugins.PluginError as error:
        raise AlgorithmError(str(error)) from error


#: Plain words for errors that pydantic words for its own users.
_IN_PLAIN_WORDS = {
    "extra_forbidden": "there is no such field",
    "model_type": "expected fields, as `name: value`",
    "dict_type": "expected fields, as `name: value`",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
}


def in_plain_words(item: ErrorDetails) -> str:
    """One error of pydantic, in plain words."""
    return _IN_PLAIN_WORDS.get(item["type"], item["msg"].removeprefix("Value error, "))


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return the errors of a configuration in one line: each field with what was expected.

    With its `model`, a misspelt field or value is followed by the one that was probably meant.
    """
    found = []
    for item in error.errors(include_url=False):
        field = ".".join(str(part) for part in item["loc"])
        said = in_plain_words(item) + (for_error(item, model) if model is not None else "")
        # A validator of the whole model names the field itself.
        found.append(said if not field and item["type"] == "value_error" else f"{field or '(top level)'}: {said}")
    return "; ".join(found)


def explain_yaml(error: Any, *, context: bool = True) -> str:
    """Return a `yaml.MarkedYAMLError` as one line: line, column, and what is wrong; with `context`, also within what.

    The error's own text names a file that does not exist, and quotes the place on several lines.
    """
    mark = error.problem_mark or error.context_mark
    where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    said = (error.context, error.problem) if context else (error.problem or error.context,)
    return where + (", ".join(text for text in said if text) or "not readable as YAML")
