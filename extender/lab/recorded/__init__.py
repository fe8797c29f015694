"""What a recording says of a cluster's life, as a workload for simulations, and as the results of what really happened.

steps --> lives.py: when each pod came, got its place, went, and why; which nodes were there
             |
             v
          jobs.py: pods that were made again, and gangs, as jobs --> workload.py: a Workload, and a Run "as recorded"
"""
