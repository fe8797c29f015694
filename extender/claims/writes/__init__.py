"""The writes of the engine of claims: one file for each kind, as `extender.core.commands` describes.

TakePod       PATCH  pod     claims a pod, if it is still idle
LookAtPod     GET    pod     reads a pod back, because the outcome of a write is unknown
RenewPod      PATCH  pod     changes when the lease ends
AdvancePod    PATCH  pod     ends a change of images: starting -> running, or stopping -> idle
CreatePod     POST   pods    creates a pod for a claim
GivePodBack   DELETE or PATCH pod     ends the claim of a pod
MarkSurplus   PATCH  pod     marks an idle pod for deletion, so that it is not claimed; or clears the mark

`extender.core.scale` sets the replicas of a pool's workload.
"""
