"""Traces of the format openb: what is read, and how each mistake is named."""

from __future__ import annotations

import pytest

from extender.lab.openb import NodeLine, PodLine, TraceError, read_nodes, read_pods

NODES = ["sn,cpu_milli,memory_mib,gpu,model\n", "n0,64000,1024,2,P100\n", "n1,32000,1024,0,\n"]
PODS = [
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n",
    "p0,6000,16,1,460,A||B,LS\n",
    "p1,1000,0,0,500,A,BE\n",
]


def test_nodes_and_pods_are_read() -> None:
    assert read_nodes(NODES, "f") == [NodeLine("n0", 64000, 1024, 2, "P100"), NodeLine("n1", 32000, 1024, 0, "")]
    assert read_pods(PODS, "f") == [PodLine("p0", 6000, 16, 1, 460, "A|B"), PodLine("p1", 1000, 0, 0, 0, "")]


def test_a_list_of_pods_may_have_five_columns() -> None:
    assert read_pods(["name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "p,1,2,2,1200\n"], "f") == [
        PodLine("p", 1, 2, 2, 1000, "")
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "f, line 1: expected the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli; missing: name"),
        (["name,cpu_milli\n", "p,1\n"], "missing: memory_mib, num_gpu, gpu_milli"),
        ([PODS[0], PODS[1], PODS[1]], "f, line 3: name: p0 appears twice"),
        (
            [PODS[0], PODS[1].replace("6000", "-6000")],
            "f, line 2: cpu_milli: expected a whole number, 0 or more, got '-6000'",
        ),
        ([PODS[0], PODS[1].replace("460", "4.6")], "f, line 2: gpu_milli: expected a whole number"),
        ([PODS[0], PODS[1].replace("460", "9" * 20)], "f, line 2: gpu_milli: expected a whole number"),
        ([PODS[0], "p0,1,2\n"], "f, line 2: expected 7 columns"),
        ([PODS[0], "p0,1,2,3,4,5,6,7\n"], "f, line 2: expected 7 columns"),
        ([PODS[0], ",1,2,1,4,5,6\n"], "f, line 2: name: empty"),
        ([PODS[0], "p0,1,2,2,500,,LS\n"], "f, line 2: gpu_milli: expected 1000 for 2 GPUs, got '500'"),
        ([PODS[0], "x" * 200_000 + "\n"], "f, line 2: field larger than field limit"),
    ],
)
def test_a_mistake_is_named_with_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(TraceError) as error:
        read_pods(lines, "f")
    assert said in str(error.value)


@pytest.mark.slow
def test_one_broken_line_of_a_million_is_named_by_its_number() -> None:
    def lines():
        yield PODS[0]
        for number in range(99_999):
            yield f"p{number},1,2,0,0,,LS\n"
        yield "broken,1,x,0,0,,LS\n"

    with pytest.raises(TraceError, match="f, line 100001: memory_mib"):
        read_pods(lines(), "f")
