"""The configuration with which the e2e tests start kube-scheduler: what `waggle kube-scheduler-config` writes.

Tests that want it otherwise change single fields of that; without any change the file is what the command wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from extender.cli import app

DEFAULT_PROFILE = "default-scheduler"
#: Requests per second to the API server; kube-scheduler's own 50 would be what tests wait for.
_QPS = "500"


def write(
    path: Path,
    *,
    kubeconfig: Path,
    url: str,
    flags: Sequence[str] = (),
    extender: Mapping[str, Any] | None = None,
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
    json_only: bool = False,
    **top: Any,
) -> Path:
    """Writes the file and returns its path. `url` is the extender's, empty: there is none.

    `flags` are further ones of the command; `extender` and `top` change fields of the extender and of the whole, None
    removes one. `json_only`: for an API server that knows no protobuf.
    """
    text = _generated(kubeconfig, url or "http://127.0.0.1:1", profiles, flags)
    if url and not (extender or top or json_only):
        path.write_text(text, encoding="utf-8")
        return path
    content = yaml.safe_load(text)
    content["extenders"] = [_changed(content["extenders"][0], extender or {})] if url else []
    if json_only:
        content["clientConnection"]["contentType"] = "application/json"
    path.write_text(yaml.safe_dump(_changed(content, top), sort_keys=False), encoding="utf-8")
    return path


def _generated(kubeconfig: Path, url: str, profiles: Sequence[str], flags: Sequence[str]) -> str:
    names = [word for name in profiles for word in ("--scheduler-name", name)]
    usual = ["--topology", "local", "--url", url, "--kubeconfig", str(kubeconfig), "--qps", _QPS, *names]
    done = CliRunner().invoke(app, ["kube-scheduler-config", *usual, *flags])
    assert done.exit_code == 0, done.output
    return done.stdout


def _changed(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**content, **changes}.items() if value is not None}
