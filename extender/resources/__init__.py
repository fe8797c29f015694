"""The custom resources of waggle.dev/v1alpha1 as pydantic models: Pool and Claim, VPodSet and VPod.

The models check what the server reads, and the CustomResourceDefinitions in manifests/crds are generated from them
(`definitions.py`, `python -m extender.operate.crds`), so that the API server refuses what the server would refuse.
Four rules are beyond a schema, and only here: which names a label may have, that a selector names no label of
Waggle's, that an autoscaler needs a workload, and that a set's minimum is not above its maximum.

The server, the HTTP layer and the generator import this package. The engines, which are pure, have records of their
own. The engine of vpods reads VPod objects itself, and leniently: a fault in one must be said in its own status.
"""

from extender.resources.claim import Claim, ClaimedPod, ClaimSpec, ClaimStatus
from extender.resources.pool import Autoscaler, Pool, PoolSpec, PoolStatus
from extender.resources.reading import ResourceError, read
from extender.resources.shared import GROUP, VERSION, Condition, Metadata
from extender.resources.vpod import HostingPod, VPod, VPodSpec, VPodStatus
from extender.resources.vpod_set import VPodSet, VPodSetSpec, VPodSetStatus

__all__ = [
    "GROUP",
    "VERSION",
    "Autoscaler",
    "Claim",
    "ClaimSpec",
    "ClaimStatus",
    "ClaimedPod",
    "Condition",
    "HostingPod",
    "Metadata",
    "Pool",
    "PoolSpec",
    "PoolStatus",
    "ResourceError",
    "VPod",
    "VPodSet",
    "VPodSetSpec",
    "VPodSetStatus",
    "VPodSpec",
    "VPodStatus",
    "read",
]
