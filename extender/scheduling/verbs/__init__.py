"""What kube-scheduler asks: filter, preempt, bind; and how far a caller's word about a pod counts."""
