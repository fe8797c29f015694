"""`waggle demo --claims`: two pools of warm pods under load, with faults and a crash, and a check that no pod was lost
or given away twice.

pools.py     the cluster: nodes, pools, Waggle's configuration of them, and the faults
callers.py   the load: callers that claim pods, use them and release them, disconnect, or crash
books.py     what the callers asked for and got, and the invariants that this must satisfy
play.py      the demo: one step after the other, with a live table
table.py     the table, and the result
"""
