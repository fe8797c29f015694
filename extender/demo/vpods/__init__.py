"""`waggle demo --vpods`: many small things on a few big pods, through growth, a drain, faults, a crash and a shrink.

fleet     the nodes, the StatefulSet, the vpods, Waggle's configuration, and the faults
history   all that the API server wrote, followed by watches, and the laws that it must obey
table     what is printed
play      the acts
"""
