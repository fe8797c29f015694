"""A stand-in for kube-scheduler that drives a scheduler extender over HTTP as kube-scheduler 1.36 does.

For demos, tests and plans on one machine; not for clusters that matter. `scheduler.KubeSchedulerStandIn` is the whole
thing; everything but `scheduler`, `writer` and `extender_client` is free of I/O, and gets the time as a parameter.

    config            what it reads of a KubeSchedulerConfiguration, and what is refused at start
    model, cluster    pods and nodes as in-tree plugins and extenders see them; who takes room where
    filters, cycle    the in-tree plugins; one scheduling cycle with its extender calls
    budgets           which victims a PodDisruptionBudget protects
    preemption        the in-tree dry run, the preempt calls, the choice of one node
    events, hints     which change could help whom
    queue             who is tried when
    core              all of the above as one owner of state: events in, writes out
    extenders, extender_client, gojson    the port to an extender; HTTP and JSON as Go speaks them
    scheduler, writer the I/O layer: informers, the loop, binds and preemptions in threads, writes

What it does differently from the real one, as far as we know:

* Scores: only a least-allocated score on cpu and memory stands for all in-tree score plugins (0..100; the real total
  is some 470 on an idle node, so the same extender weight counts for more here).
* In-tree filters: NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit. No volumes,
  inter-pod affinity, topology spread, DRA, pod-level quotas, or preferred node affinity.
* Nodes are filtered one after the other, in their order of arrival from a rotating start. The real one filters in
  parallel and interleaves zones, so samples have the same size, not the same members.
* A preemptor is held back until the informer has seen its victims go; the real one releases it with the last deletion.
* It watches pods, nodes and PodDisruptionBudgets only: PVCs, StorageClasses, CSINodes, DeviceClasses and
  ResourceClaims wake nobody.
* Permit, PreBind, gang scheduling (alpha), leader election, client rate limits (qps 50) and metrics are missing.
* HTTP: the extender's time-out bounds each wait for bytes, not the body as a whole; no HTTP/2, no proxy variables;
  tlsConfig takes files, not inline data.

Where tests/golden/calls hold it against a real one, and how: docs/embedded-cluster.md.
"""
