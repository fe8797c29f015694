"""The policies of components/claims-guard in force, as they are installed with claims.

with guarded(plane) as guard:
    ...
    assert guard.denied("waggle-claimed-pods")  # how often, as the API server counts it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import yaml

from extender.claims.writes.names import CLAIM_ANNOTATION
from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.hands import Hands, Object, eventually

_FOLDER = Path(__file__).parents[2] / "manifests" / "components" / "claims-guard"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_PLACES = {
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}
#: The account that the ReplicaSet controller has.
REPLICASETS = "system:serviceaccount:kube-system:replicaset-controller"
#: And the garbage collector.
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
CLAIMS = "system:serviceaccount:waggle-system:waggle-claims"
MERGE = "application/merge-patch+json"


def acting_as(account: str) -> dict[str, str]:
    """Headers of requests in the name of an account, which may do everything: only policies can refuse it."""
    return {"Impersonate-User": account, "Impersonate-Group": "system:masters"} if account else {}


class Guard:
    """The policies, while they are in force."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def denied(self, policy: str) -> int:
        """How many requests this policy has refused since the API server was started, those of tests included."""
        wanted = re.compile(
            r"^apiserver_validating_admission_policy_check_total\{"
            rf'.*enforcement_action="deny".*policy="{policy}".*\}} (\S+)$',
            re.MULTILINE,
        )
        return int(sum(map(float, wanted.findall(self._http.get("/metrics").raise_for_status().text))))


@contextmanager
def guarded(plane: ControlPlane) -> Iterator[Guard]:
    """All of them in force, in the whole cluster."""
    objects = _objects()
    probe = Hands(plane)
    with closing(probe.http):
        describe(_marked(probe))
        probe.pod("plain", schedulerName="nobody")
        for item in objects:
            describe(probe.http.post(_PLACES[item["kind"]], json=item))
        try:
            eventually(lambda: all(_answers(probe).values()), lambda: f"policies in force: {_answers(probe)}")
            for name in ("marked", "plain"):
                probe.delete(name, grace=0)
            yield Guard(probe.http)
        finally:
            for item in reversed(objects):
                probe.http.delete(f"{_PLACES[item['kind']]}/{item['metadata']['name']}")
            eventually(lambda: _marked(probe, dryRun="All").is_success, "policies are no longer in force")


def _marked(probe: Hands, **query: str) -> httpx.Response:
    metadata = {"name": "marked", "annotations": {CLAIM_ANNOTATION: "probe"}}
    body = {"metadata": metadata, "spec": probe.pod_spec(schedulerName="nobody")}
    return probe.http.post(f"/api/v1/namespaces/{probe.namespace}/pods", json=body, params=query)


def _objects() -> list[Object]:
    files: list[str] = yaml.safe_load((_FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [item for name in files for item in yaml.safe_load_all((_FOLDER / name).read_text(encoding="utf-8"))]


def _answers(probe: Hands) -> Mapping[str, bool]:
    """Whether each of the policies refuses what it is to refuse; it takes the API server a moment to read a new one."""
    pods, tried = f"/api/v1/namespaces/{probe.namespace}/pods", {"dryRun": "All"}
    labels = {"metadata": {"labels": {"app": "x"}}}
    forged = {"metadata": {"annotations": {CLAIM_ANNOTATION: "forged"}}}
    http, kind = probe.http, {"content-type": MERGE}
    answers = {
        "waggle-claimed-pods": http.delete(f"{pods}/marked", params=tried, headers=acting_as(REPLICASETS)),
        "waggle-claim-writes": http.patch(
            f"{pods}/plain", params=tried, json=labels, headers={**kind, **acting_as(CLAIMS)}
        ),
        "waggle-claim-marks": http.patch(f"{pods}/plain", params=tried, json=forged, headers=kind),
    }
    return {policy: answer.status_code == 422 and policy in answer.text for policy, answer in answers.items()}
