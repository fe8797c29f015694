"""The custom resources of claims: Pool and Claim of waggle.dev/v1alpha1, as pydantic models.

The models check what the server reads, and the CustomResourceDefinitions in manifests/crds are generated from them
(`definitions.py`, `python -m extender.operate.crds`), so that the API server refuses what the server would refuse.
Three rules are beyond a schema, and only here: which names a label may have, that a selector names no label of
Waggle's, and that an autoscaler needs a workload.

The server, the HTTP layer and the generator import this package. The engine of claims, which is pure, has records of
its own.
"""

from extender.resources.claim import Claim, ClaimedPod, ClaimSpec, ClaimStatus
from extender.resources.pool import Autoscaler, Pool, PoolSpec, PoolStatus
from extender.resources.reading import ResourceError, read
from extender.resources.shared import GROUP, VERSION, Condition, Metadata

__all__ = [
    "GROUP",
    "VERSION",
    "Autoscaler",
    "Claim",
    "ClaimSpec",
    "ClaimStatus",
    "ClaimedPod",
    "Condition",
    "Metadata",
    "Pool",
    "PoolSpec",
    "PoolStatus",
    "ResourceError",
    "read",
]
