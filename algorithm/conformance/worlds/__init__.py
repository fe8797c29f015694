"""The worlds that come with the kit: of plain pods, and of each algorithm that comes with Waggle."""
