"""Gradient-trained networks on the same problems: what the feature solver is compared with."""

from tessella.baselines.fbpinn import fbpinn
from tessella.baselines.pinn import pinn
from tessella.baselines.training import Training

__all__ = ["Training", "fbpinn", "pinn"]
