"""The CustomResourceDefinitions that come with Waggle. Worlds create them again and again: each is parsed once."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import yaml

from tests.support.kubectl import CRDS


def definition(name: str) -> dict[str, Any]:
    """The definition in manifests/crds/NAME.yaml, as an object of the caller's own."""
    found: dict[str, Any] = json.loads(_as_json(name))
    return found


@cache
def _as_json(name: str) -> str:
    return json.dumps(yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8")))
