"""The engine of pods, sans-I/O: events in, instructions out.

events.py      the events that the engine takes and the answers it gives; `commands.py`: its API server commands
machine.py     the engine: one event in, the instructions it causes out
state/         records of pods and nodes; Waiting / Preempting / Binding / Bound as one transition table
verbs/         the extender verbs of kube-scheduler: filter, preempt, bind
preemption/    preemptions that the server carries out by itself
driver.py      calls the algorithm, and keeps the guarantees that its interface promises
requeue.py     makes kube-scheduler try waiting pods again
"""
