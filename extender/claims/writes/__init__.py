"""The writes of the engine of claims: one file for each kind, as `extender.core.commands` describes.

TakePod       PATCH  pod     claims it, if it still is what was decided upon
LookAtPod     GET    pod     reads it back, since the outcome of a write is not known
RenewPod      PATCH  pod     changes when its lease ends
AdvancePod    PATCH  pod     it runs its new images: starting -> running, or stopping -> idle
CreatePod     POST   pods    creates it for a claim
GivePodBack   DELETE or PATCH pod     ends its claim
ScaleWorkload PATCH  scale   sets the replicas of the workload that makes a pool's pods
MarkSurplus   PATCH  pod     keeps an idle pod that may go from requests, or no longer
"""
