"""Least squares in blocks: the filter, direct and iterative solvers, conditioning. Knows no PDE."""
