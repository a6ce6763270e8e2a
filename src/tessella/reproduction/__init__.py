"""The paper's experiments: every table, series and figure, run through the public interface."""

from tessella.reproduction.cases import Case
from tessella.reproduction.run import TARGETS, plan, reproduce
from tessella.reproduction.store import Store

__all__ = ["TARGETS", "Case", "Store", "plan", "reproduce"]
