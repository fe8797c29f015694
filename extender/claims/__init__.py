"""The engine of claims: hands idle warm pods to requests, each pod once.

A *pool* is a set of pods that are started ahead of need. A *claim* asks for one of them, or for several at once (a
gang). The life of a claim:

                  ask                       enough idle pods that serve it
    (nobody) -------------> WAITING -----------------------------------------> CLAIMING
       |                     |   ^                                               |    |
       | refused             |   |  a pod was lost: the claim keeps its place    |    | every pod is written
       v                     |   +-----------------------------------------------+    v
     FAILED <----------------+                                                   CLAIMED ---> (released, lease over)
       ^      deadline, caller gone, shutdown, refused write                     |
       +-------------------------------------------------------------------------+

Promises:

* No pod is in two claims: a pod is held in the ledger while it is written, and the write tests the pod's own state, so
  the API server decides between several servers.
* Each request gets exactly one answer. After every event, accepted = claimed + failed (by code) + pending.
* Nothing stays claimed for a caller that went away, nor by a write that arrived late: such pods are given back.
* A claim that lost its pod to somebody else goes on with its own seniority.
* Nothing waits for a timer that an event could wake. Timers serve deadlines, leases, and patience with the API server.
* All state is on the pods. A server that starts derives every claim from the pods' annotations.

The engine is pure, as all engines: see `extender.core.engine`.
"""
