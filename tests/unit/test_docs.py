"""The documentation holds: links lead somewhere, and the configuration page says what the settings model says."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from algorithm.packing import PackingSettings
from extender.kube.client.kubeconfig import connect
from extender.scheduling.policy import Policy
from extender.server.cache_comparer import CacheComparer
from extender.settings import ClusterSettings, Settings
from extender.web.app import create_app
from tests.support.http.fixed_runtime import FixedRuntime
from tests.support.pages import blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
ROW = re.compile(r"^\| `([a-z0-9_.]+)` \| (.+?) \| (.+) \|$", re.MULTILINE)


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that is not a section, and optional sections too, with its default."""
    for name, field in model.model_fields.items():
        sections = [kind for kind in (field.annotation, *getattr(field.annotation, "__args__", ())) if is_model(kind)]
        if not sections or field.default is None:
            yield prefix + name, field.get_default(call_default_factory=True)
        for section in sections:
            yield from fields(section, f"{prefix}{name}.")


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def shown(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "none"
    if isinstance(default, str):
        return f"`{default}`" if default else '`""`'
    return f"`{json.dumps(default)}`"


def test_the_configuration_page_has_every_field_with_its_default() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    told = {name: default for name, default, _ in ROW.findall(page)}
    known = [*fields(Settings), *fields(PackingSettings, "algorithm.settings.")]
    assert told == {name: shown(default) for name, default in known}


def test_the_configuration_page_names_every_choice() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    meaning = {name: text for name, _, text in ROW.findall(page)}
    for name, choices in {
        "algorithm.settings.strategy": ["pack", "spread"],
        "server.inspect_authorization": ["none", "kubernetes"],
        "preemption.mode": ["auto", "kube-scheduler", "direct"],
        "log.level": ["debug", "info", "warning", "error"],
        "log.format": ["console", "json"],
    }.items():
        assert all(f"`{choice}`" in meaning[name] for choice in choices)


def test_the_dependencies_page_has_every_dependency_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[<>=; ]", line)[0].lower() for line in project["dependencies"]}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    runtime = page.split("\n## ")[1]
    assert set(re.findall(r"^\| ([a-z0-9-]+) \|", runtime, re.MULTILINE)) - {"package"} == declared


def test_the_http_page_has_every_route_and_no_other() -> None:
    api = connect(ClusterSettings(server="http://127.0.0.1:1"))
    runtime = FixedRuntime()
    paths = create_app(runtime, Settings(), CacheComparer(api, runtime, Policy(), every=0)).openapi()["paths"]
    page = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `GET (/[^`]+)` \|", page, re.MULTILINE))
    assert told == {path for path, methods in paths.items() if "get" in methods} - {"/"}
    verbs = {path for path, methods in paths.items() if "post" in methods}
    for verb in verbs - {path for path in verbs if path.startswith("/v1/extender/")}:
        assert f"`{verb}`" in page or f"`POST {verb}`" in page
        assert f"/v1/extender{verb}" in verbs


def test_the_http_page_names_every_parameter() -> None:
    api = connect(ClusterSettings(server="http://127.0.0.1:1"))
    runtime = FixedRuntime()
    paths = create_app(runtime, Settings(), CacheComparer(api, runtime, Policy(), every=0)).openapi()["paths"]
    page = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    for methods in paths.values():
        for parameter in methods.get("get", {}).get("parameters", []):
            assert parameter["in"] == "path" or f"`{parameter['name']}`" in page


def test_the_quick_start_configures_kube_scheduler_as_the_manifest_does() -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    (block,) = blocks(page, "yaml")
    manifest = ROOT / "manifests" / "kube-scheduler" / "kube-scheduler-config.yaml"
    told, applied = yaml.safe_load(block), yaml.safe_load(manifest.read_text(encoding="utf-8"))
    (extender,) = applied["extenders"]
    without_tls = {
        key: value for key, value in extender.items() if key not in ("urlPrefix", "enableHTTPS", "tlsConfig")
    }
    assert told["extenders"] == [without_tls | {"urlPrefix": "http://127.0.0.1:9096"}]
    assert told.items() <= (applied | {"extenders": told["extenders"]}).items()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_on_the_map() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name != "index.md" and f"({page.name})" not in index] == []


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def test_what_the_glossary_points_to_is_there() -> None:
    paths = set(re.findall(r"`((?:algorithm|extender|tests)/[\w./]+)`", GLOSSARY))
    assert len(paths) > 50
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_a_name_of_the_glossary_is_in_the_file_that_it_gives() -> None:
    given = re.findall(r"`([\w.]+)` in `([\w./]+\.py)`", GLOSSARY)
    assert len(given) > 20
    for name, path in given:
        for part in name.split("."):
            assert re.search(rf"\b{part}\b", (ROOT / path).read_text(encoding="utf-8")), (part, path)
