"""The engine of pods, sans-I/O: events in, instructions out.

events.py      what can happen, and what the engine answers; `commands.py`: what it wants done at the API server
machine.py     the engine: one event in, the instructions it causes out
state/         what is known of pods and nodes; Waiting / Preempting / Binding / Bound as one transition table
verbs/         what kube-scheduler asks: filter, preempt, bind
preemption/    preemptions that the server carries out by itself
driver.py      tells the algorithm what happens, and keeps its guarantees
requeue.py     makes kube-scheduler try waiting pods again
"""
