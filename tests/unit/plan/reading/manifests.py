"""Manifests, as short as tests want them."""

from __future__ import annotations

import json
from typing import Any

from extender.plan.reading.documents import Documents, Source, read_documents
from extender.plan.reading.expanding import Expanded, expand
from extender.plan.records import World

Object = dict[str, Any]


def containers(**requests: str) -> list[Object]:
    return [{"name": "main", "image": "app:1", "resources": {"limits": requests}}]


def pod_spec(cpu: str = "1", **more: Any) -> Object:
    return {"containers": containers(cpu=cpu), **more}


def job_spec(pods: int = 1, **more: Any) -> Object:
    template = {"spec": pod_spec(restartPolicy="Never"), **more.pop("template", {})}
    return {"parallelism": pods, "completions": pods, "template": template, **more}


def workload(kind: str, name: str, replicas: int, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
    inside = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": inside}


def job(name: str, pods: int = 1, **more: Any) -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job_spec(pods, **more)}


def pod(name: str, **more: Any) -> Object:
    spec = more.pop("spec", {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": pod_spec(**spec)}


def read(*objects: Object, namespace: str = "default") -> Documents:
    text = "\n---\n".join(json.dumps(each) for each in objects)
    return read_documents([Source("a.yaml", text)], namespace=namespace)


def expanded(*objects: Object, world: World | None = None) -> Expanded:
    return expand(read(*objects).require().objects, world or World())


def names(found: Expanded) -> list[str]:
    return [each.pod.pod.name for each in found.pods]
