"""The state of pods and nodes, and the transition table that changes it."""
