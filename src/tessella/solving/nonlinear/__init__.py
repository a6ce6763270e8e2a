"""Nonlinear problems as sequences of linear ones."""
