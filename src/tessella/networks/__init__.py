"""Gradient-trained networks on the same problems: what the feature solver is compared with."""

from tessella.networks.baselines import fbpinn, pinn
from tessella.networks.training import Training

__all__ = ["Training", "fbpinn", "pinn"]
