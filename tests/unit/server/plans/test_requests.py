"""What the body of a plan may say, and how a wrong one is refused: by field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.operate.plan_options import target_of
from extender.ordering.records import Target
from extender.server.plans.changes import read_changes
from extender.server.plans.needs import needs_of
from extender.server.plans.requests import RequestError, read_request

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 1
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}
"""
#: Aliases of aliases: some billions of values.
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))


def read(body: dict[str, Any]) -> Any:
    return read_changes(read_request(msgspec.json.encode(body), is_yaml=False, format_=""))[0]


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"manifest": "x"}, "manifest", "there is no such field; there are: manifests"),
        ({"drain": "n0"}, "drain", "array"),
        ({"add_nodes": -1}, "add_nodes", "greater than or equal to 0"),
        ({"node_shape": "cpu=1"}, "node_shape", "expected add_nodes, too"),
        ({"add_nodes": 1, "node_shape": "cpu"}, "node_shape", "expected RESOURCE=QUANTITY"),
        ({"delete": ["train"]}, "delete.0", "expected KIND/NAME"),
        ({"delete": ["Job/a", "node/default/n1"]}, "delete.1", "a node has no namespace"),
        ({"priorities": {"Job/a/b/c": 1}}, "priorities.Job/a/b/c", "expected KIND/NAME"),
        ({"priorities": {"Job/a": 2**31}}, "priorities.Job/a", "less than or equal to 2147483647"),
        ({"priorities": {"Job/a": -(10**30)}}, "priorities.Job/a", "greater than or equal to -2147483648"),
        ({"format": "pdf"}, "format", "json"),
        ({"manifests": "kind: Pod\n"}, "manifests", "manifests, document 1"),
        ({"manifests": "a: ["}, "manifests", "manifests"),
        ({"manifests": BOMB}, "manifests", "manifests"),
        ({"manifests": JOB + "---" + JOB}, "manifests", "train"),
        ({"objects": [{"kind": "Pod"}]}, "objects", "objects, document 1"),
    ],
)
def test_a_wrong_request_is_refused_by_field(body: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(body)
    assert caught.value.field == field
    assert said in str(caught.value)


@pytest.mark.parametrize(("body", "is_yaml", "form"), [(b"[", False, ""), (b"\xff", True, ""), (b"{}", False, "pdf")])
def test_what_is_no_request(body: bytes, is_yaml: bool, form: str) -> None:
    with pytest.raises(RequestError):
        read_request(body, is_yaml=is_yaml, format_=form)


def test_the_format_of_the_address_goes_before_that_of_the_body() -> None:
    assert read_request(b'{"format": "svg"}', is_yaml=False, format_="dot").format == "dot"
    assert read_request(b"kind: Pod", is_yaml=True, format_="").manifests == "kind: Pod"
    assert read_request(b" ", is_yaml=False, format_="").format == "json"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("node/n1", Target("Node", "", "n1")),
        ("gang/big", Target("Group", "default", "big")),
        ("PodGroup/other/big", Target("Group", "other", "big")),
        ("job/train", Target("job", "default", "train")),
    ],
)
def test_names_are_those_of_the_options_of_a_command(text: str, target: Target) -> None:
    """`node/n1` was an object of a namespace, all of whose pods were read."""
    changes = read({"delete": [text]})
    assert changes.delete == (target,)
    assert target_of(text, "--delete", "default") == target
    assert (needs_of(changes).namespaces == ()) is (target.kind == "Node")


def test_names_become_targets() -> None:
    changes = read(
        {
            "delete": ["Node/n1", "Job/train", "Group/other/gang"],
            "priorities": {"Pod/p": 5},
            "namespace": "mine",
            "cordon": ["n2"],
            "add_nodes": 2,
            "node_shape": "cpu=4,memory=1Gi",
        }
    )
    assert changes.delete == (
        Target("Node", "", "n1"),
        Target("Job", "mine", "train"),
        Target("Group", "other", "gang"),
    )
    assert changes.priorities == ((Target("Pod", "mine", "p"), 5),)
    assert changes.cordon == ("n2",)
    assert [node.name for node in changes.add_nodes] == ["new-node-0", "new-node-1"]


@pytest.mark.parametrize(
    ("body", "nodes", "namespaces", "selected"),
    [
        ({}, (), (), ()),
        ({"drain": ["n1"]}, ("n1",), (), ()),
        ({"delete": ["Job/train", "Node/n1"]}, (), (), (("default", "batch.kubernetes.io/job-name=train"),)),
        ({"delete": ["Group/other/gang", "Job/other/a"]}, (), ("other",), ()),
        ({"manifests": JOB}, (), (), (("default", "batch.kubernetes.io/job-name=train"),)),
        (
            {"manifests": JOB.replace("train}", "t, annotations: {waggle.dev/after: job/a}}")},
            (),
            ("default",),
            (),
        ),
    ],
)
def test_which_pods_have_to_be_known_in_full(
    body: dict[str, Any], nodes: tuple[str, ...], namespaces: tuple[str, ...], selected: tuple[tuple[str, str], ...]
) -> None:
    needs = needs_of(read(body))
    assert (needs.nodes, needs.namespaces, needs.selected) == (nodes, namespaces, selected)
