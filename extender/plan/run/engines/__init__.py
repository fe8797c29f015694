"""Claims and vpods in plans: the engines that serve them live, as listeners of the plan's cluster."""
