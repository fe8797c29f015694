"""The annotation, the gate and the labels of start-up ordering: two engines read them, and neither knows the other."""

from __future__ import annotations

#: The annotation with the dependencies, on pods, pod groups, and the templates and objects that make pods.
AFTER = "waggle.dev/after"
#: The scheduling gate that the server removes when the dependencies are met.
GATE = "waggle.dev/after"
#: Labels that name a pod's PodGroup, for the out-of-tree coscheduling plug-in.
GROUP_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
#: Annotations that name a pod's PodGroup, for Volcano.
GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
