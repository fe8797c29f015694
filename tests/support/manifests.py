"""The shipped manifests, as they are and as kustomize makes them, and the rules that every one of them has to keep."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.build import find

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
OVERLAYS = sorted(path.parent.name for path in MANIFESTS.glob("overlays/*/kustomization.yaml"))
Object = dict[str, Any]
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # where libyaml is there, it takes a tenth of the time

#: Objects that something else makes: cert-manager from its Certificates, or `waggle certs` with kubectl.
MADE_ELSEWHERE = {
    ("Secret", "waggle-server-tls"),
    ("Secret", "waggle-kube-scheduler-tls"),
    ("Secret", "waggle-viewer-tls"),
    ("Secret", "waggle-claims-tls"),
    ("Secret", "waggle-vpods-tls"),
    ("ClusterRole", "system:kube-scheduler"),
    ("ClusterRole", "system:volume-scheduler"),
    ("ClusterRole", "system:auth-delegator"),
    ("Role", "extension-apiserver-authentication-reader"),
}


def documents(path: Path) -> list[Object]:
    return list(json.loads(_as_json(path.read_text(encoding="utf-8"))))


@cache
def kubectl() -> str:
    """A kubectl whose kustomize knows components (1.21 or newer); "" if there is none."""
    for candidate in (os.environ.get("WAGGLE_KUBECTL", ""), "kubectl"):
        found = shutil.which(candidate) if candidate else None
        if found and _minor(found) >= 21:
            return found
    return ""


def _minor(path: str) -> int:
    """The minor version of a Kubernetes 1.x client; 0 if it does not say."""
    answer = subprocess.run([path, "version", "--client", "--output=json"], capture_output=True, check=False)
    found = re.search(rb'"minor":\s*"(\d+)', answer.stdout)
    return int(found[1]) if found else 0


@cache
def _rendered(overlay: str, program: str) -> str:
    done = subprocess.run(
        [program, "kustomize", str(MANIFESTS / "overlays" / overlay)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # deprecations
    return done.stdout


@cache
def _as_json(text: str) -> str:
    """The documents of a YAML text. Each test gets objects of its own, and JSON is read a hundred times as fast."""
    return json.dumps([document for document in yaml.load_all(text, _LOADER) if document is not None])


def render(overlay: str, program: str = "") -> list[Object]:
    """What `kubectl kustomize` makes of an overlay."""
    return [document for document in json.loads(_as_json(_rendered(overlay, program or kubectl()))) if document]


def kustomized(folder: Path, components: Iterable[str]) -> list[Object]:
    """What `kubectl kustomize` makes of the base with these components, as an overlay in `folder`."""
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "base", folder)],
        "components": [os.path.relpath(MANIFESTS / "components" / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    done = subprocess.run([kubectl(), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, _LOADER) if document]


# -- the chart ----------------------------------------------------------------------------------------------------

CHART = MANIFESTS / "chart"
#: Values with which the chart makes what the overlays make.
CHART_VALUES: dict[str, tuple[str, ...]] = {
    "chart": (),
    "chart static-pod": ("--set=scheduler.enabled=false", "--set=controlPlane.addresses={10.0.0.1/32,fd00::1/128}"),
    "chart with all": (
        "--set=prometheus.enabled=true",
        "--set=authDelegator=true",
        "--set=certificates.certManager=false",
    ),
    "chart with claims": ("--set=claims.enabled=true,claims.separate=true,claims.clients={ci}",),
    "chart with claims beside": ("--set=claims.enabled=true,claims.clients={ci}",),
    "chart of claims alone": ("--set=extender.enabled=false,claims.enabled=true,claims.clients={ci}",),
    "chart with vpods": ("--set=vpods.enabled=true,vpods.separate=true,vpods.clients={ci}",),
    "chart with vpods beside": ("--set=vpods.enabled=true,vpods.clients={ci}",),
    "chart with ordering": ("--set=ordering.enabled=true",),
    "chart of vpods alone": ("--set=extender.enabled=false,vpods.enabled=true,vpods.clients={ci}",),
}
#: Those with the extender in them.
EXTENDER_VALUES = [name for name in CHART_VALUES if not name.endswith(" alone")]


@cache
def helm() -> str:
    """A helm: that of WAGGLE_HELM or of the PATH, or the one that `make e2e` has built; "" if there is none."""
    for candidate in (os.environ.get("WAGGLE_HELM", ""), "helm"):
        if candidate and (found := shutil.which(candidate)):
            return found
    return str(find("helm") or "")


def helm_template(
    *options: str, release: str = "waggle", namespace: str = "waggle-system"
) -> subprocess.CompletedProcess[str]:
    """What `helm template` says of the chart."""
    command = [helm(), "template", release, str(CHART), "--namespace", namespace, "--kube-version", "1.36.0", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def _chart(options: tuple[str, ...], release: str, namespace: str) -> str:
    done = helm_template(*options, release=release, namespace=namespace)
    assert done.returncode == 0, done.stderr
    # Files that kustomize has, too, are links.
    assert all("found symbolic link" in line for line in done.stderr.splitlines()), done.stderr
    return done.stdout


def chart(*options: str, release: str = "waggle", namespace: str = "waggle-system") -> list[Object]:
    """What the chart makes of these options of helm."""
    return [document for document in json.loads(_as_json(_chart(options, release, namespace))) if document]


# -- rules --------------------------------------------------------------------------------------------------------


def pod_templates(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    for item in objects:
        if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            yield item["metadata"]["name"], item["spec"]["template"]


def insecure(objects: list[Object]) -> list[str]:
    """What the Pod Security Standard `restricted` would refuse, and a root file system that can be written."""
    found = []
    for name, template in pod_templates(objects):
        pod = template["spec"]
        context = pod["securityContext"]
        found += [f"{name}: {field}" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
        found += [f"{name}: volume {volume['name']}" for volume in pod["volumes"] if "hostPath" in volume]
        if not (context["runAsNonRoot"] and context["runAsUser"] > 0):
            found.append(f"{name}: may run as root")
        if context["seccompProfile"] != {"type": "RuntimeDefault"}:
            found.append(f"{name}: seccomp")
        for container in pod["containers"]:
            expected = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            if container["securityContext"] != expected:
                found.append(f"{name}: container {container['name']}: {container['securityContext']}")
            if "memory" not in container["resources"]["limits"]:
                found.append(f"{name}: container {container['name']} may take all memory")
    return found


def dangling(objects: list[Object], made_elsewhere: Collection[tuple[str, str]] = ()) -> list[str]:
    """References by name that lead nowhere."""
    known = {(item["kind"], item["metadata"]["name"]) for item in objects} | MADE_ELSEWHERE | set(made_elsewhere)
    return sorted(
        f"{owner} -> {kind} {name}" for owner, kind, name in _references(objects) if (kind, name) not in known
    )


def _references(objects: list[Object]) -> Iterator[tuple[str, str, str]]:
    for name, template in pod_templates(objects):
        pod = template["spec"]
        yield name, "ServiceAccount", pod["serviceAccountName"]
        for volume in pod["volumes"]:
            if "configMap" in volume:
                yield name, "ConfigMap", volume["configMap"]["name"]
            if "secret" in volume:
                yield name, "Secret", volume["secret"]["secretName"]
    for item in objects:
        name = item["metadata"]["name"]
        if "roleRef" in item:
            yield name, item["roleRef"]["kind"], item["roleRef"]["name"]
            for subject in item["subjects"]:
                yield name, subject["kind"], subject["name"]
        if item["kind"] == "Certificate":
            yield name, "Issuer", item["spec"]["issuerRef"]["name"]
        if item["kind"] == "ValidatingAdmissionPolicyBinding":
            yield name, "ValidatingAdmissionPolicy", item["spec"]["policyName"]


def unmatched(objects: list[Object], put_there: frozenset[str] = frozenset({"waggle.dev/leads"})) -> list[str]:
    """Selectors for pods that match none, but for labels that are `put_there` at run time."""
    labels = [template["metadata"]["labels"] for _, template in pod_templates(objects)]
    found = []
    for item in objects:
        for selector in _pod_selectors(item):
            wanted = {key: value for key, value in selector.items() if key not in put_there}
            if not any(wanted.items() <= have.items() for have in labels):
                found.append(f"{item['kind']} {item['metadata']['name']}: {selector}")
    return found


def _pod_selectors(item: Object) -> Iterator[dict[str, str]]:
    spec = item.get("spec", {})
    match item["kind"]:
        case "Service":
            yield spec["selector"]
        case "Deployment" | "PodDisruptionBudget":
            yield spec["selector"]["matchLabels"]
            for constraint in spec.get("template", {}).get("spec", {}).get("topologySpreadConstraints", []):
                yield constraint["labelSelector"]["matchLabels"]
        case "NetworkPolicy":
            yield spec["podSelector"]["matchLabels"]
            for rule in spec["ingress"]:
                for peer in rule["from"]:
                    if "podSelector" in peer:
                        yield peer["podSelector"]["matchLabels"]


def ports_without_container(objects: list[Object]) -> list[str]:
    """Ports that are named by probes, Services and policies, and that no container has."""
    named = {
        port["name"]
        for _, template in pod_templates(objects)
        for container in template["spec"]["containers"]
        for port in container["ports"]
    }
    text = json.dumps([item for item in objects if item["kind"] in ("Deployment", "Service", "NetworkPolicy")])
    asked = set(re.findall(r'"targetPort": "(\w+)"', text)) | set(re.findall(r'"port": "(\w+)"', text))
    return sorted(asked - named)
