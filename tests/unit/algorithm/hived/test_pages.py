"""The page about HiveD: its examples work, and it names every setting."""

import re
from pathlib import Path

import pytest
import yaml

from algorithm.hived import HivedSettings
from algorithm.hived.cells.config import HivedConfig
from algorithm.hived.formats.podspec import SPEC, parse_spec
from tests.support.pages import blocks

PAGES = Path(__file__).parents[4] / "docs"


@pytest.fixture(scope="module")
def page():
    return (PAGES / "algorithm-hived.md").read_text()


@pytest.fixture(scope="module")
def example(page):
    """The one that has this in it."""

    def find(key: str):
        [block] = [block for block in blocks(page, "yaml") if key in block]
        return yaml.safe_load(block)

    return find


@pytest.fixture(scope="module")
def configured(example):
    return example("physicalCluster:")["algorithm"]["settings"]


def test_the_example_of_a_configuration_is_one(configured):
    settings = HivedSettings.model_validate(configured)

    assert list(settings.layout().machines) == [f"gpu-0{number}" for number in range(1, 7)]


def test_the_example_for_several_tenants_is_one(configured, example):
    settings = HivedSettings.model_validate(configured | example("allowedNamespaces:"))

    assert settings.allowed_namespaces["*"] == ()
    assert settings.opportunistic_limits.virtual_clusters == {"research": "8", "*": "25%"}
    assert settings.group_names_per == ("namespace",)
    assert settings.obey_gang_release


def test_the_example_of_a_pod_is_one(example):
    spec = parse_spec(example(SPEC)["metadata"]["annotations"][SPEC], namespace="ns", name="pod")

    assert (spec.tenant, spec.group, spec.pods) == ("research", "training-7", ((8, 3),))


def test_every_setting_has_a_row(page):
    own = HivedSettings.model_fields.keys() - HivedConfig.model_fields.keys()

    assert all(f"| `{HivedSettings.model_fields[name].alias}` |" in page for name in own)


def test_every_defect_of_the_list_has_a_row_and_the_tests_speak_of_no_other():
    told = set(re.findall(r"^\| (BUG-\d+) \|", (PAGES / "moving-from-hived.md").read_text(), re.MULTILINE))
    named = set(re.findall(r"bug_(\d+)", Path(__file__).with_name("test_upstream_bugs.py").read_text()))

    assert told == {f"BUG-{number}" for number in range(1, 25)}
    assert {f"BUG-{number}" for number in named} <= told
