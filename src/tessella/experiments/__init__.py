"""The paper's experiments: every table, series and figure, run through the public interface."""

from tessella.experiments.cases import Case
from tessella.experiments.run import TARGETS, plan, reproduce
from tessella.experiments.store import Store

__all__ = ["TARGETS", "Case", "Store", "plan", "reproduce"]
