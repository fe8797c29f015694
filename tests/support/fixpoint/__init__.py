"""What tests of the dependency engine share: declared graphs, an executor that takes turns, the ancestor, an oracle."""

from tests.support.fixpoint.declared import Declared, reason, runs, without_drain
from tests.support.fixpoint.shuffled import Shuffled

__all__ = ["Declared", "Shuffled", "reason", "runs", "without_drain"]
