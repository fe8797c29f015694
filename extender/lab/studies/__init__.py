"""Studies: experiments with their workload, settings and figure, each as one command (`waggle simulate --study`)."""
