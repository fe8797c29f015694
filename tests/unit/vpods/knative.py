"""ConsumerGroups of Knative's eventing-kafka-broker, as its controller writes them; field names are the contract.

Names of the API group, the resource, the label and the fields are those of knative-extensions/eventing-kafka-broker
v0.50.0 (Apache License 2.0): control-plane/config/eventing-kafka-broker/100-kafka-internal/100-consumergroup.yaml and
pkg/apis/internalskafkaeventing/v1alpha1. Its CustomResourceDefinition keeps unknown fields, has the sub-resources
status and scale, and checks nothing. No text of it is copied here; the values are ours.
"""

from __future__ import annotations

import json
from typing import Any

from extender.core.field_paths import parse
from extender.vpods.records import ObjectKey, VPodSource

Object = dict[str, Any]

GROUP = "internal.kafka.eventing.knative.dev"
KIND_LABEL = "kafka.eventing.knative.dev/metadata.kind"

#: Those of KafkaSources. A controller labels each ConsumerGroup with the kind it is for.
SOURCES = VPodSource(
    name="sources",
    group=GROUP,
    version="v1alpha1",
    resource="consumergroups",
    wanted=parse(".spec.replicas"),
    set=ObjectKey("knative-eventing", "sources"),
    where=((parse(f".metadata.labels['{KIND_LABEL}']"), "kafkasource"),),
)

DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"consumergroups.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "ConsumerGroup", "plural": "consumergroups", "singular": "consumergroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def consumer_group(name: str, *, replicas: Any = 3, placements: Any = None, kind: str = "kafkasource") -> Object:
    """One that its controller has seen before: with conditions, subscriber and selector in its status."""
    status: Object = {
        "observedGeneration": 1,
        "conditions": [{"type": "ConsumersScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "maxAllowedVReplicas": 7,
        "subscriberUri": "http://event-display.user.svc.cluster.local",
        "replicas": 3,
        "selector": f"kafka.eventing.knative.dev/metadata.uid={name}",
    }
    spec: Object = {
        "template": {
            "metadata": {"labels": {"kafka.eventing.knative.dev/metadata.uid": name}},
            "spec": {
                "topics": ["orders"],
                "configs": {"configs": {"group.id": name, "bootstrap.servers": "kafka.kafka:9092"}},
                "delivery": {"ordering": "ordered", "initialOffset": "latest"},
                "subscriber": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "event-display"}},
            },
        },
        "selector": {"kafka.eventing.knative.dev/metadata.uid": name},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    if placements is not None:
        status["placements"] = placements
    owner = {
        "apiVersion": "sources.knative.dev/v1",
        "kind": "KafkaSource",
        "name": name,
        "uid": "o",
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": "user",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "generation": 1,
        "labels": {KIND_LABEL: kind},
        "ownerReferences": [owner],
        "finalizers": [f"consumergroups.{GROUP}"],
    }
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def body(obj: Object) -> bytes:
    return json.dumps(obj).encode()
