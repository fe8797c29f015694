"""The pages beside the verbs: inspect, health, metrics, and who may look."""
