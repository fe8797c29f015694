"""The writes of the engine of claims: one file for each kind, as `extender.core.commands` describes.

TakePod       PATCH  pod     claims it, if it still is what was decided upon
LookAtPod     GET    pod     reads it back, since the outcome of a write is not known
GivePodBack   DELETE or PATCH pod     ends its claim
"""
