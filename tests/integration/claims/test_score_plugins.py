"""docs/claim-scores.md does what it says, and a score that cannot be used is refused with the field at fault."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from pydantic import ValidationError

from extender.claims.events import ClaimAsked
from extender.claims.records import PoolKey, WarmPod
from extender.claims.scores import GROUP
from extender.server.claims.score_plugins import configured_score
from extender.settings import Settings, SettingsError
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_objects import add_pool, condition, object_world, pool_status
from tests.support.cluster.claim_world import claim_world
from tests.support.pages import blocks, page

PAGE = page("claim-scores.md")
ASKED = ClaimAsked(request="r", claim="c", pool=PoolKey("default", "python"))
POD = WarmPod(uid="u", namespace="default", name="p", resource_version="1")
#: More plug-ins, all of which are wrong.
WRONG = """
from loaded import ScorePlugin, Settings, create

def explode(settings): raise OSError("no such model")
def by_name(settings): return lambda pod, asked: 1 / 0 if pod.name == "p" else float("nan")

OLD = ScorePlugin(settings=Settings, create=create, api_version=0)
EXPLODES = ScorePlugin(settings=Settings, create=explode)
FAILS = ScorePlugin(settings=Settings, create=by_name)
NONE = create
"""


def block(language: str, number: int = 0) -> str:
    return blocks(PAGE, language)[number]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's module and entry point on sys.path, as pip would leave them, and the wrong ones."""
    (tmp_path / "loaded.py").write_text(block("python"), encoding="utf-8")
    (tmp_path / "wrong_scores.py").write_text(WRONG, encoding="utf-8")
    project = tomllib.loads(block("toml"))["project"]
    info = tmp_path / "my_score-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [f"{name} = {value}" for name, value in project["entry-points"][GROUP].items()]
    points += [f"{name} = wrong_scores:{name.upper()}" for name in ("old", "explodes", "fails", "none")]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points]))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("loaded", "wrong_scores"):
        sys.modules.pop(name, None)


def settings(**score: Any) -> Settings:
    return Settings.model_validate({"claims": {"score": score}})


def test_the_pages_test_passes() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python", 1), "docs/claim-scores.md", "exec"), names)
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    test()


def test_without_a_name_nothing_scores() -> None:
    assert configured_score(Settings().claims) is None


@pytest.mark.parametrize(
    ("score", "text"),
    [
        ({"name": "loadde"}, r"claims\.score\.name: no score named 'loadde' is installed; .*did you mean loaded\?"),
        ({"name": "old"}, r"claims\.score\.name: score 'old' was written for interface version 0"),
        ({"name": "none"}, r"wrong_scores:NONE is not an extender\.claims\.scores\.ScorePlugin"),
        ({"name": "explodes"}, r"claims\.score: score 'explodes' cannot be made: OSError\('no such model'\)"),
        ({"name": "loaded", "settings": {"anotation": "x"}}, r"claims\.score\.settings: anotation: .* annotation\?"),
    ],
)
def test_what_cannot_be_used_is_refused(score: Any, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        configured_score(settings(**score).claims)


def test_a_pool_of_the_order_score_needs_one() -> None:
    pools = [{"name": "p", "selector": {"a": "b"}, "order": "score"}]
    with pytest.raises(ValidationError, match=r"default/p: order: expected `claims\.score\.name`"):
        Settings.model_validate({"claims": {"pools": pools}})
    Settings.model_validate({"claims": {"pools": pools, "score": {"name": "loaded"}}})


def test_each_distinct_failure_is_logged_once() -> None:
    score = configured_score(settings(name="fails").claims)
    assert score is not None
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                score(POD, ASKED)
            score(WarmPod(uid="v", namespace="default", name="q", resource_version="1"), ASKED)
    said = [(each["score"], each["failure"]) for each in logs]
    assert said == [("fails", "ZeroDivisionError: division by zero"), ("fails", "expected a finite number, got nan")]


def test_a_server_gives_the_pod_away_that_the_score_prefers() -> None:
    config = yaml.safe_load(block("yaml"))["claims"]
    pools = [{"name": "python", "selector": {"pool": "python"}, "order": "score"}]
    assert config["pools"] == pools
    with claim_world(pods=1, serve=False) as w:
        for name in ("a", "b", "c"):
            loaded = {f"loaded.example.com/{name}": "yes"}
            w.deploy(name, 1, {"pool": "python", **loaded})
        server = w.serve(score=config["score"], pools=pools)
        uses = {"example.com/uses": "x,b"}
        answer = w.claim("python", annotations=uses)
        assert answer.json()["pods"][0]["name"].startswith("b-")
        assert "waggle_claims_score_failures_total 0.0" in server.http.get("/metrics").text


def test_a_pool_object_of_the_order_score_says_that_there_is_none() -> None:
    with object_world(pods=1) as w:
        add_pool(w, "scored", order="score")
        eventually(lambda: condition(pool_status(w, "scored"), "Misconfigured")[1] == "NoScore")
