"""The annotation and the gate of start-up ordering: two engines read them, and neither knows the other."""

from __future__ import annotations

#: The annotation with the dependencies, on pods, pod groups, and the templates and objects that make pods.
AFTER = "waggle.dev/after"
#: The scheduling gate that the server removes when the dependencies are met.
GATE = "waggle.dev/after"
