"""Random clusters of all kinds of objects, as JSON, against what docs/ordering.md says becomes of their pods."""
