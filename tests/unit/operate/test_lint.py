"""`waggle lint`: every rule finds its fixture, and nothing else; our own configurations are clean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from extender.cli import app
from extender.operate import rules_file
from extender.operate.document import Document, DocumentError, read
from extender.operate.lint import Finding, as_json, as_markdown, as_text, lint, to_mend, unseen
from extender.operate.rules import REGISTRY, Severity
from extender.operate.scheduler_config import SchedulerOptions, kube_scheduler_config
from extender.operate.topology import Topology
from extender.settings import Settings, load
from tests.support.kubescheduler.binary import needs_kube_scheduler, refusal

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures" / "lint"
CODES = sorted(REGISTRY)
#: Some traps cannot be shown without another one.
ALSO = {
    "WL401": {"WL404"},
    "WL408": {"WL404", "WL405"},
    "WL602": {"WL603"},
    "WL607": {"WL316"},
    "WL609": {"WL502"},
}
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def found(text: str, waggle: Settings | None = None) -> list[Finding]:
    return lint(read(text), waggle)


def codes(text: str, waggle: Settings | None = None) -> set[str]:
    return {finding.rule.code for finding in found(text, waggle)}


def config_of(code: str) -> Settings | None:
    """Waggle's configuration beside a fixture, for the rules that need one."""
    path = FIXTURES / "waggle" / f"{code}.yaml"
    return load(path) if path.exists() else None


# -- the rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
def test_a_rule_finds_what_is_wrong_and_no_other_rule_does(code: str):
    assert codes((FIXTURES / f"{code}.yaml").read_text(), config_of(code)) == {code} | ALSO.get(code, set())


def test_every_fixture_has_its_rule():
    assert {path.stem for path in FIXTURES.glob("*.yaml")} == set(CODES)


def test_rules_that_hold_two_files_against_each_other_need_both():
    needing = {code for code in CODES if REGISTRY[code].check_with is not None}
    assert {path.stem for path in (FIXTURES / "waggle").glob("*.yaml")} == needing
    for code in needing:
        assert code not in codes((FIXTURES / f"{code}.yaml").read_text())
        assert code not in codes((FIXTURES / f"{code}.yaml").read_text(), Settings()) or code == "WL606"


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"pods": {"resource": "hivedscheduler.microsoft.com/pod-scheduling-enable"}},
        {"pods": {"resource": "example.com/gpu", "scheduler_names": ["gpu-scheduler"]}},
        {"server": {"port": 19096}, "cluster": {"request_timeout_seconds": 25}},
    ],
    ids=str,
)
@pytest.mark.parametrize("topology", Topology)
def test_what_is_written_from_a_configuration_agrees_with_it(sections: dict[str, Any], topology: Topology):
    tls = {"cert_file": "tls.crt", "key_file": "tls.key", "client_ca_file": "ca.crt"}
    server = {**sections.get("server", {}), "tls": None if topology is Topology.LOCAL else tls}
    waggle = Settings.model_validate({**sections, "server": server})
    url = f"https://10.0.0.1:{waggle.server.port}" if topology is Topology.STATIC_POD else None
    options = SchedulerOptions(topology=topology, url=url, all_pods=True)
    text = kube_scheduler_config(options, waggle)
    assert codes(text, waggle) <= {"WL501"}


@pytest.mark.parametrize(
    "options",
    [
        {"topology": Topology.LOCAL},
        {"topology": Topology.SECOND_SCHEDULER},
        {"topology": Topology.SECOND_SCHEDULER, "verbs": ("filter", "prioritize", "preempt", "bind"), "weight": 5},
        {"topology": Topology.STATIC_POD, "url": "https://10.0.0.1:1", "managed_resources": ("example.com/gpu",)},
    ],
    ids=str,
)
def test_what_we_write_ourselves_is_clean(options: dict[str, Any]):
    assert found(kube_scheduler_config(SchedulerOptions(**options))) == []


def test_a_rule_says_what_will_happen_and_what_to_do():
    for code in CODES:
        rule = REGISTRY[code]
        assert re.fullmatch(r"WL\d{3}", code)
        assert re.fullmatch(r"[a-z][a-z-]+", rule.name), code
        assert rule.happens.endswith("."), code
        assert rule.mend.endswith("."), code
        assert not rule.refused or rule.severity is Severity.ERROR, code


def test_the_documentation_has_every_rule_word_for_word():
    page = (ROOT / "docs" / "kube-scheduler-config.md").read_text(encoding="utf-8")
    assert as_markdown().strip() in page, "paste the output of `waggle lint --rules` into the page"


@pytest.mark.slow
@needs_kube_scheduler
@pytest.mark.parametrize("code", [code for code in CODES if code != "WL306"])  # that one names a kubeconfig of kubeadm
def test_a_real_kube_scheduler_refuses_what_we_say_that_it_refuses(code: str, client_folder: Path):
    said = refusal(FIXTURES / f"{code}.yaml", folder=client_folder)

    assert bool(said) == REGISTRY[code].refused, said


#: And those that look right.
NO_RESOURCES = [
    "a.com/two words",
    "Example.com/gpu",
    "a.com/b/c",
    "a.com/",
    "/gpu",
    "a.com/-x",
    "a_b.com/gpu",
    "a..b/gpu",
]


@pytest.mark.parametrize("name", [*NO_RESOURCES, "x.kubernetes.io/gpu", f"a.com/{'x' * 64}", f"{'a.' * 122}com/x"])
def test_a_managed_resource_that_is_none_is_found(name: str):
    assert "WL503" in codes(_managing(name))


@pytest.mark.slow
@needs_kube_scheduler
@pytest.mark.parametrize("name", [*NO_RESOURCES, f"{'a.' * 122}com/x", "example.com/G_p-u.1", f"{'a.' * 120}com/x"])
def test_a_real_kube_scheduler_takes_the_same_resources(name: str, client_folder: Path, tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text(_managing(name))

    assert bool(refusal(file, folder=client_folder)) == ("WL503" in codes(file.read_text()))


def _managing(name: str) -> str:
    return f"{HEAD}extenders: [{{urlPrefix: 'http://127.0.0.1:1', managedResources: [{{name: '{name}'}}]}}]"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("profiles: [{schedulerName: ''}]", "WL105"),
        ("parallelism: 0", "WL209"),
        ("profiles: [{schedulerName: a, percentageOfNodesToScore: 10}]\nextenders: [{urlPrefix: x}]", "WL201"),
        ("profiles: [{schedulerName: a, plugins: {multiPoint: {disabled: [{name: '*'}]}}}]", "WL206"),
        ("profiles: [{schedulerName: a, plugins: {filters: {}}}]", "WL104"),
        ("leaderElection: {leaderelect: true}", "WL104"),
        ("extenders: [{filterVerb: f}]", "WL301"),
        ("extenders: [{urlPrefix: 'http://[::1', filterVerb: f}]", "WL301"),
        ("extenders: [{urlPrefix: 'https://h/?q=1', filterVerb: f}]", "WL301"),
        ("extenders: [{urlPrefix: 'http://h', filterVerb: f, tlsConfig: {caFile: c}}]", "WL311"),
        ("extenders: [{urlPrefix: 'https://h', filterVerb: f}]", "WL315"),
        ("extenders: [{urlPrefix: 'https://h', filterVerb: f, tlsConfig: {keyData: k}}]", "WL317"),
        ("extenders: [{urlPrefix: 'http://h', filterVerb: f, bindVerb: b, httpTimeout: 0s}]", "WL321"),
        ("extenders: [{urlPrefix: 'http://h', filterVerb: f, httpTimeout: -5s}]", "WL323"),
        ("extenders: [{urlPrefix: 'http://h', filterVerb: f, httpTimeout: 5}]", "WL105"),
        ("extenders: nobody", "WL105"),
        ("extenders: [nobody]", "WL105"),
        ("percentageOfNodesToScore: 101", "WL105"),
        ("podInitialBackoffSeconds: 20", "WL105"),
        ("extenders: []", "WL107"),
    ],
)
def test_other_forms_of_the_traps_are_found(text: str, code: str):
    assert code in codes(HEAD + text)


def test_a_profile_with_a_percentage_of_its_own_does_not_need_the_common_one():
    own = "profiles: [{schedulerName: default-scheduler, percentageOfNodesToScore: 100}]\nextenders: [{urlPrefix: x}]"
    assert "WL201" not in codes(HEAD + own)


def test_what_a_rule_says_is_not_said_again_in_general():
    text = "extenders: [{urlPrefix: 'http://h', filterVerb: f, managedResources: [{name: cpu}]}]"
    assert "WL503" in codes(HEAD + text)
    assert "WL105" not in codes(HEAD + text)


def test_a_misspelt_field_gets_a_suggestion_and_its_line():
    (finding,) = [f for f in found(HEAD + "extenders:\n- urlPrefix: http://h\n  filterverb: f\n") if f.rule.refused]

    assert (finding.line, finding.field, finding.detail) == (5, "extenders[0].filterverb", "did you mean filterVerb?")


def test_a_field_that_is_not_there_is_reported_at_what_lacks_it():
    text = HEAD + "extenders:\n- urlPrefix: http://127.0.0.1:1\n  filterVerb: f\n"
    lines = {finding.rule.code: finding.line for finding in found(text)}

    assert lines["WL405"] == 4
    assert lines["WL201"] == 1


def test_a_config_map_is_looked_into():
    inner = (FIXTURES / "WL402.yaml").read_text()
    line = inner.splitlines().index("  ignorable: true") + 1
    indented = "\n".join(f"    {each}" for each in inner.splitlines())
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  config.yaml: |\n{indented}\n"

    (finding,) = found(text)

    assert (finding.rule.code, finding.line) == ("WL402", line + 5)


@pytest.mark.parametrize("text", ["", "[]", "just a text", "null", "- a\n- b"])
def test_something_else_altogether_is_another_kind(text: str):
    assert codes(text) == {"WL103"}


def keys(schema: Any) -> Iterator[str]:
    """Every name of a field, at whatever depth."""
    for each in schema if isinstance(schema, list) else [schema]:
        for key, inner in (each or {}).items():
            yield key
            yield from keys(inner)


KEYS = st.sampled_from(sorted(set(keys(rules_file._SCHEMA)))) | st.integers(0, 2)
TEXTS = st.sampled_from(["http://h/", "https://h:1", "10s", "-1s", "x/y", "cpu", "*", "default-scheduler", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.floats() | TEXTS | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)
EXTENDERS = st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=2)


@given(st.dictionaries(KEYS, VALUES, max_size=5), EXTENDERS)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_whatever_stands_in_a_file_is_answered(fields: dict[Any, Any], extenders: list[dict[Any, Any]]):
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

    findings = lint(Document(head | fields | {"extenders": extenders}, {(): 1}))

    assert len(json.loads(as_json("f", findings))["findings"]) == len(findings)
    assert as_text("f", findings)


# -- what cannot be read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: b\n c: d\n", "line 2, column 3: "),
        ("a: [1, 2\nb: 3", "line 2"),
        ("a: 1\nb: 2\na: 3\n", "line 3: a appears twice"),
        ("a: \x00", "not readable as YAML"),
        ("a: !!python/object/apply:os.system [ls]", "line 1"),
        ("kind: ConfigMap\ndata: {a: b}", "line 1: a ConfigMap without"),
        ("a: &a [*a]", "YAML"),
        ("? [a, b]\n: c", "line 1: a list or mapping cannot be the name"),
        ("a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{n}: &{n} [{','.join([f'*{p}'] * 9)}]\n" for p, n in zip("abcdef", "bcdefg", strict=True)
        ), "more than"),
    ],
)  # fmt: skip
def test_bad_yaml_is_refused_with_its_place(text: str, says: str):
    with pytest.raises(DocumentError) as refused:
        read(text)

    assert says in str(refused.value)
    if says.startswith("line"):
        assert str(refused.value).startswith("line")


# -- the command --------------------------------------------------------------------------------------------------


def run(*arguments: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["lint", *arguments], input=stdin)


def test_a_clean_file_is_0_and_says_what_it_does_not_tell(tmp_path: Path):
    file = tmp_path / "clean.yaml"
    file.write_text(kube_scheduler_config(SchedulerOptions(topology=Topology.SECOND_SCHEDULER)))

    done = run(str(file))

    assert done.exit_code == 0
    rules = sum(rule.check_with is None for rule in REGISTRY.values())
    assert f"nothing found by {rules} rules" in done.output
    assert "--config waggle.yaml" in done.output
    assert all(text in done.output for text in unseen(with_config=False))


def test_findings_are_1_and_say_where_what_happens_and_what_to_do():
    file = FIXTURES / "WL402.yaml"

    done = run(str(file))

    assert done.exit_code == 1
    rule = REGISTRY["WL402"]
    assert re.search(rf"^{re.escape(str(file))}:\d+: error WL402 ignorable-binder: ", done.output, re.MULTILINE)
    assert rule.happens in done.output
    assert rule.mend in done.output
    assert "docs/kube-scheduler-config.md#wl402-ignorable-binder" in done.output
    assert "1 error" in done.output


def test_a_remark_alone_is_0():
    assert run(str(FIXTURES / "WL302.yaml")).exit_code == 0
    assert not to_mend(found((FIXTURES / "WL302.yaml").read_text()))


def test_a_file_that_cannot_be_read_is_2(tmp_path: Path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")

    assert run(str(broken)).exit_code == run(str(tmp_path / "missing")).exit_code == run().exit_code == 2
    assert f"{broken}: line 1" in run(str(broken)).stderr


def test_for_machines_there_is_json():
    done = json.loads(run(str(FIXTURES / "WL104.yaml"), "--json").output)

    (finding,) = done["findings"]
    assert finding["code"] == "WL104"
    assert finding["severity"] == "error"
    assert finding["field"] == "extenders[0].filterverb"
    assert finding.keys() >= {"line", "what", "happens", "mend", "docs"}
    assert done["unseen"] == list(unseen(with_config=False))


def test_rules_may_be_left_out():
    assert run(str(FIXTURES / "WL402.yaml"), "--ignore", "WL402").exit_code == 0
    assert run(str(FIXTURES / "WL402.yaml"), "--ignore", "WL999").exit_code == 2


def test_standard_input_is_read():
    assert run("-", stdin=(FIXTURES / "WL411.yaml").read_text()).exit_code == 1


def test_every_rule_can_be_listed():
    done = run("--rules")

    assert done.exit_code == 0
    assert all(f"### {code} {REGISTRY[code].name}" in done.output for code in CODES)


def test_with_waggles_configuration_every_rule_is_asked(tmp_path: Path):
    marker = "hivedscheduler.microsoft.com/pod-scheduling-enable"
    waggle, file = tmp_path / "waggle.yaml", tmp_path / "config.yaml"
    waggle.write_text(f"pods: {{resource: {marker}}}\n")
    file.write_text(kube_scheduler_config(SchedulerOptions(topology=Topology.LOCAL)))

    done = run(str(file), "--config", str(waggle))

    assert done.exit_code == 1
    assert "error WL601 marker-not-managed: extenders[0].managedResources is not set" in done.output
    assert f"pods.resource of Waggle is {marker}" in done.output
    file.write_text(kube_scheduler_config(SchedulerOptions(topology=Topology.LOCAL), load(waggle)))
    done = run(str(file), "--config", str(waggle))
    assert (done.exit_code, f"nothing found by {len(REGISTRY)} rules" in done.output) == (0, True)
    assert "--config waggle.yaml" not in done.output


def test_a_configuration_of_waggle_that_cannot_be_used_is_2_and_named(tmp_path: Path):
    waggle = tmp_path / "waggle.yaml"
    waggle.write_text("pods: {resources: x}\n")
    done = run(str(FIXTURES / "WL601.yaml"), "--config", str(waggle))
    assert done.exit_code == 2
    assert "pods.resources" in done.output
