"""Shows a plan: as a table, Markdown, a graph (SVG, dot), JSON or YAML; and the difference between two plans."""
