"""The engine of pods: the state machine that places them, sans-I/O.

`machine.py` takes events and gives instructions. Below it: `verbs` (what kube-scheduler asks), `preemption`
(what the server carries out by itself), `state` (what is known of each pod and node).
"""
