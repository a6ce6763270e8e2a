"""The paper's experiments: every table, series and figure, run through the public interface."""

from tessella.reproduction.cases import Case
from tessella.reproduction.run import TARGETS, Plan, reproduce
from tessella.reproduction.store import Store

__all__ = ["TARGETS", "Case", "Plan", "Store", "reproduce"]
