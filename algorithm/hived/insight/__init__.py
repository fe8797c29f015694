"""Output for people: pages, explanations, what-if."""
