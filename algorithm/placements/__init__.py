"""Policies that place virtual replicas on the pods of a StatefulSet.

`model.py` says what a policy is asked, knows and answers. `balanced` is the default: even counts with the fewest
moves. `head`, `v0431` and `v0430` decide as Knative eventing's scheduler did in three of its versions, recording by
recording (tests/conformance). A policy is a function of a vpod and a `SetState`: no I/O, no clock, no chance.
"""
