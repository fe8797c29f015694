"""`waggle demo`: a cluster on this machine, workloads that show what Waggle does, and a check that it did.

cast.py        the three processes: API server stand-in, Waggle, kube-scheduler stand-in
workloads.py   the nodes, the workloads, and what is expected of each
hived.py       the same for HiveD: tenants and what they are promised
run.py         the play: one act after the other, with live progress
report.py      the tables at the end
"""
