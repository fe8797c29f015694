"""The engine of claims: gives idle warm pods to requests, each pod to one request only.

A *pool* is a set of pods that were started before they are needed. A *claim* asks for one of them, or for several at
once (a gang). The states of a claim:

                  ask                       enough idle pods that serve it
     (none)  -------------> WAITING -----------------------------------------> CLAIMING
       |                     |   ^                                               |    |
       | refused             |   |  a pod was lost: the claim keeps its place    |    | every pod is written
       v                     |   +-----------------------------------------------+    v
     FAILED <----------------+                                                   CLAIMED ---> (released, expired)
       ^      deadline, caller gone, shutdown, refused write                     |
       +-------------------------------------------------------------------------+

Promises:

* No pod is in two claims: a pod is held in the ledger while it is written, and the write tests the pod's own state, so
  the API server decides between several servers.
* A key has one claim at a time, on every server: see `keyed`. Servers must know that there may be others (`shares`).
* Each request gets exactly one answer. After every event, accepted = claimed + failed (by code) + pending.
* A pod that was claimed for a caller that has disconnected, or by a write that arrived late, is given back: it is
  deleted, or returns to its pool.
* A request that loses its pod to another claim keeps its seniority in the queue.
* Events wake requests. Timers serve only deadlines, leases, and back-off towards the API server.
* All state is on the pods. A server that starts derives every claim from the pods' annotations.

The engine is pure, as all engines are: see `extender.core.engine`.
"""
