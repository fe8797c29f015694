"""The pages beside the verbs: inspect, health, metrics, and authorization for them."""
