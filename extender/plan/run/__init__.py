"""The run of a plan: kube-scheduler and Waggle on a cluster in memory, until nothing happens any more."""

from extender.plan.run.making import make_plan, planning

__all__ = ["make_plan", "planning"]
