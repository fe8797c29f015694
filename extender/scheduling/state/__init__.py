"""What is known of pods and nodes, and the one table of transitions that changes it."""
