"""What people are told: pages, explanations, what would be if."""
