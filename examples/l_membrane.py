"""Eigenvalues of an L: the corner's functions give the first one to eleven digits.

-Laplace(u) = lambda u on (-1, 1)^2 without a quadrant, u = 0 around it: the membrane of MATLAB's
logo. Its first eigenvalue is 9.6397238440219 (Betcke and Trefethen 2005), the third is 2 pi^2.
"""

import math

import jax.numpy as jnp
import numpy as np

import tessella as ts

FIRST = 9.6397238440219

square, quadrant = ts.Box(x=(-1, 1), y=(-1, 1)), ts.Box(x=(0, 1), y=(-1, 0))
membrane = ts.Problem(
    domain=square - quadrant,
    equation=ts.Equation(-ts.Laplacian()),
    conditions=[ts.Dirichlet(0.0)],
    name="L membrane",
)


def term(n, m):
    """r^(2n/3 + 2m) sin(2n theta / 3): what functions with -Laplace(u) = lambda u have there."""
    corner = ts.Corner(1.5 * math.pi, exponent=2 * n / 3)

    def function(p):
        return jnp.sum(p**2, axis=1) ** m * corner(p)

    return ts.Enrichment(function, where=ts.Box(x=(-0.4, 0.4), y=(-0.4, 0.4)))


# Whole exponents (n = 3, 6, ...) are smooth, and features have them already.
terms = [term(n, m) for n in (1, 2, 4, 5, 7, 8) for m in (0, 1, 2) if 2 * n / 3 + 2 * m < 6]
spectrum = ts.eigs(membrane, k=3, subdomains=4, features=200, enrichment=terms)
print(spectrum)

off = abs(spectrum.values[0] - FIRST)
print(f"first eigenvalue off by {off:.0e}, estimated {spectrum.errors[0]:.0e}")
shape = spectrum[0].function
assert off < 1e-11
assert abs(spectrum.values[2] - 2 * np.pi**2) < 1e-10
assert np.max(np.abs(shape.residual([(-0.5, 0.5), (0.3, 0.6)]))) < 1e-6
