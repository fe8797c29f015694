"""Objects as people name them in options and in requests: KIND/NAME, or KIND/NAMESPACE/NAME."""

from __future__ import annotations

from extender.ordering.records import GROUP, Target

#: What people call a gang, in lower case; the API server calls it PodGroup.
GANG_KINDS = ("gang", "group", "podgroup")


class TargetError(ValueError):
    """The text names no object. The message says what was expected."""


def read_target(text: str, namespace: str) -> Target:
    """Return the object that the text names, in `namespace` if it names none. Raises TargetError.

    A kind may be written in any case, as in `job/train`: a plan compares kinds so.
    """
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise TargetError(f"expected KIND/NAME or KIND/NAMESPACE/NAME, got {text!r}")
    kind, name = parts[0].lower(), parts[-1]
    if kind == "node":
        if len(parts) == 3:
            raise TargetError(f"a node has no namespace: expected node/NAME, got {text!r}")
        return Target("Node", "", name)
    return Target(GROUP if kind in GANG_KINDS else parts[0], parts[1] if len(parts) == 3 else namespace, name)
