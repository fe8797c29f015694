"""Policies that place virtual replicas on the pods of a StatefulSet.

`model.py` defines a policy's arguments and result. `balanced` is the default: even counts with the fewest moves.
`head`, `v0431` and `v0430` decide as three versions of Knative eventing's scheduler did, recording by recording
(tests/conformance). A policy is a pure function of a vpod and a `SetState`: no I/O, no clock, no randomness.
"""
