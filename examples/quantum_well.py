"""Energies of a particle in a well: those of Poeschl and Teller, which are squares.

-psi'' - 6 / cosh(x)^2 psi = E psi holds two states, with the energies -4 and -1 (Poeschl and Teller
1933). Far away psi dies like exp(-2 |x|), so that walls at |x| = 12 are as good as none.
"""

import jax.numpy as jnp
import numpy as np

import tessella as ts

well = ts.Problem(
    domain=ts.Box(x=(-12, 12)),
    equation=ts.Equation(-ts.D(x=2) - (lambda p: 6 / jnp.cosh(p[:, 0]) ** 2) * ts.Identity()),
    conditions=[ts.Dirichlet(0.0)],
    name="well of Poeschl and Teller",
)
bound = ts.eigs(well, k=2, near=-4.5, subdomains=24, features=24)
print(bound)

x = np.linspace(-3, 3, 61)
ground = bound[0].function(x)
shape = 1 / np.cosh(x) ** 2
assert np.max(np.abs(bound.values - [-4, -1])) < 1e-8
assert np.max(np.abs(ground / ground[30] - shape)) < 1e-7
