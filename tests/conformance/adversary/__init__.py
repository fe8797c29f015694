"""An independent adversary of HiveD: it knows what is published, and nothing of the implementation.

    python -m tests.conformance.adversary --seconds 60 --seed 7

It drives the algorithm through `algorithm.interface` as the extender does, and judges by its own accounts: by the plans
on pods, the pages of groups, and the configuration. The state machine of Hypothesis (`hived_machine.py`) looks into the
algorithm; the adversary shares nothing with it, so that it errs elsewhere.

    cluster.py     draws a configuration: chains of hardware, tenants, promises
    instance.py    one instance of the algorithm, and what it was told
    run.py         one random run: gangs come, are placed, preempt and end; nodes fail
    restarts.py    the same pods told to new instances and forks, and promises that are called in
    judge.py       what must hold of every answer and every page
    search.py      runs, and the shortest sequence of steps that fails at the same place

A run is a seed for its cluster and a list of numbers, one for each step. A run that fails is shortened by leaving
steps out.
"""
