"""`v0.43.0`: Knative eventing's scheduler with predicates and priorities, and its affinity MAXFILLUP (until 2024).

It is for users who have such a policy in a ConfigMap and want to keep it. It places one vreplica at a time; with
predicates it places all vreplicas of a vpod anew whenever the vpod grows. `snapshot.py` is the state that plug-ins
look at, `plugins.py` the predicates and priorities with their arguments, `scheduler.py` the decision, `autoscaler.py`
the number of replicas and what is moved off the last pods.

Source: knative/eventing v0.43.0 pkg/scheduler, by behaviour (recorded answers, tests/conformance).
"""
