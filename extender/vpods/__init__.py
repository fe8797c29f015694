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

* No pod gets more vreplicas than its capacity: until a move has been seen, it takes room on both pods.
* A restart or a change of leader moves nothing: the placements are in the status of each vpod.
* A scale-down removes a pod only after its last vreplica has been seen elsewhere.
* With `overlap_seconds` no vreplica leaves a working pod before its replacement has been placed for that time.
* An error in one vpod or one set does not affect the others, and is reported once, with the name of the field.
"""
