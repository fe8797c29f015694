"""`waggle demo --claims`: two pools of warm pods under load, with faults and a crash, and a check that no pod was lost
or given away twice.

pools.py     the cluster: nodes, pools, what Waggle is told about them, what goes wrong
callers.py   the load: programs that claim pods, use them, and give them back, or go away
books.py     what callers asked for and got, and the laws that it must obey
play.py      the play: one act after the other, with a live table
table.py     that table, and the verdict
"""
