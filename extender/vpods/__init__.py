"""The engine of vpods: places virtual replicas on the pods of StatefulSets, and says how many pods there should be.

    informers   SetsConfigured WorkloadSeen HostPodSeen HostNodeSeen VPodSeen --+
    reports     PlacementsWritten VPodRead WorkloadScaled ----------------------+--> handle --> WritePlacements
    leadership  TermBegun TermEnded --------------------------------------------+               ReadVPod ScaleWorkload
    timer       Ticked ---------------------------------------------------------+               Notice, for people

One vpod:

                    decide: it should be elsewhere        report: DONE
        SETTLED ------------------------------> WRITING --------------> CONFIRMING --- seen ---> SETTLED
           ^                                       |                         |
           +------------ seen, read <--------------+ LOST, STALE, UNKNOWN    +-- not seen in time: read
                                                   | THROTTLED, REJECTED: again, later and later

With `overlap_seconds`, a move that is planned is two writes: the first adds the new places, and the old ones stay; the
second, so much later, takes the old ones away. A pod that is lost is no plan: what was on it goes elsewhere at once.

One set:

        STEADY --- fewer replicas do for some time ---> DRAINING --- the last vreplica is seen elsewhere ---> SHRINKING
           ^  <------------- more is wanted ---------------+                                                     |
           +------------------------------------ the StatefulSet is seen with fewer replicas <-------------------+

Promises:

* No pod holds more vreplicas than its capacity: until a move has been seen it takes room on both pods.
* A restart, or another leader, moves nothing: where vreplicas are stands in the status of each vpod.
* A replica of the StatefulSet goes only after its last vreplica is seen to be gone.
* With `overlap_seconds` no vreplica leaves a pod that works before another one has been elsewhere for so long.
* What is wrong with one vpod, or one set, stops no other one, and is said once, with its field.
"""
