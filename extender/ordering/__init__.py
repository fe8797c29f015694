"""The engine of start-up ordering: which pods are held back until others are scheduled, ready or complete.

    informers   Configured PodSeen PodGone WorkloadSeen WorkloadGone Synced --+
    reports     GateRemoved MetMarked PodRead --------------------------------+--> handle --> RemoveGate MarkMet ReadPod
    leadership  TermBegun TermEnded ------------------------------------------+               HoldBack LetGo, for the
    timer       Ticked -------------------------------------------------------+               engine of pods
                                                                                              TellPod, for people

One pod:

                       nothing holds it back                        seen without the gate, marked as released
    seen --> WAITING --------------------------> RELEASING -----------------------------------------------> RELEASED
               |                                  |    ^
               |                                  |    | THROTTLED: later; any other failure: the pod is read first
               |                                  +----+
               |    ^
               |    | something is declared for it           +--- without a gate: HoldBack ... LetGo, and a mark on
               v    |                                             the pod
              FREE, without a gate: nothing is declared

A pod waits for what it declares and for what the objects above it declare (`judging.py`); these are counted in a tree
(`tree.py`). Why a wait cannot end by itself is searched in the background (`causes.py`).

Promises:

* A pod is released as soon as all its dependencies are met, by the very event that meets the last one. Nothing polls:
  what waits is parked on its targets, and timers exist only for grace, for failed writes and for explanations.
* Release is once. A pod that was released is never held again, whatever becomes of its dependencies; and a dependency
  that was met stays met for that pod, also if its target is deleted. Both are recorded on the pod.
* A pod without a gate for which nothing is declared was never held: it is not released but free, and waits if something
  is declared for it before it is bound. So a restart, which knows only what is recorded, changes nothing.
* A failed pod or Job is not ready, and one that has completed is, however long ago.
* A missing, failed or circular dependency is told on the pod, with its root cause and, of a cycle, with its path. It
  stays a wait: the pod goes on as soon as that is mended.
* The state is rebuilt from lists and watches. A new leader sends again what its predecessor may have failed to send.
"""
