"""The extender verbs of kube-scheduler: filter, preempt, bind; and the validation of their requests."""
