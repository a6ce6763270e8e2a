"""A stiff fibre in a soft matrix: displacement and traction pass, strains jump, Eshelby knows them.

Plane strain, pulled along x. In a round fibre strains are uniform: the change of area is 1 / (1 +
alpha (K_f / K_m - 1)) of the one far away with alpha = 1 / (2 (1 - nu)), the shear 1 / (1 + beta
(mu_f / mu_m - 1)) with beta = (3 - 4 nu) / (4 (1 - nu)) and nu of the matrix.
"""

from pathlib import Path

import numpy as np

import tessella as ts

R, NU, MODULI = 0.5, 0.3, {"fibre": (5.0, 4.0), "rest": (1.5, 1.0)}  # lambda and mu of both
(K_f, mu_f), (K_m, mu_m) = ((lame + mu, mu) for lame, mu in MODULI.values())
area = 0.5 / (1 + (K_f / K_m - 1) / (2 * (1 - NU)))
shear = 0.5 / (1 + (mu_f / mu_m - 1) * (3 - 4 * NU) / (4 * (1 - NU)))


def far(p):
    """u + i v, where u = x and v = 0 are bent by the fibre."""
    z, kappa = p[:, 0] + 1j * p[:, 1], 3 - 4 * NU
    bent = (shear - 0.5) / kappa * (kappa / z + z / z.conj() ** 2 - R**2 / z.conj() ** 3)
    return z.real + R**2 * ((area - 0.5) / z.conj() + bent)


u, v, x, y = ts.Field("u"), ts.Field("v"), ts.D(x=1), ts.D(y=1)
equations, pulls_x, pulls_y = [], [], []
for region, (lame, mu) in MODULI.items():
    xx, yy = (lame * (x @ u + y @ v) + 2 * mu * own for own in (x @ u, y @ v))
    xy = mu * (y @ u + x @ v)
    equations += [ts.Equation(x @ xx + y @ xy, where=region, name=f"along x, {region}")]
    equations += [ts.Equation(x @ xy + y @ yy, where=region, name=f"along y, {region}")]
    pulls_x.append(ts.Normal("x") @ xx + ts.Normal("y") @ xy)
    pulls_y.append(ts.Normal("x") @ xy + ts.Normal("y") @ yy)

problem = ts.Problem(
    ts.Divided(ts.Box(x=(-1, 1), y=(-1, 1)), fibre=ts.Ball(x=0, y=0, radius=R)),
    equations,
    [
        ts.Dirichlet(lambda p: far(p).real, of=u),
        ts.Dirichlet(lambda p: far(p).imag, of=v),
        *ts.Transmission("fibre", "rest", flux=pulls_x, of=u),
        *ts.Transmission("fibre", "rest", flux=pulls_y, of=v),
    ],
    name="fibre",
)
solution = ts.solve(problem, tol=1e-3)

inside = [(0.0, 0.0), (0.3, 0.2), (-0.1, -0.45)]
strains = np.array([solution.apply(own, inside) for own in (x @ u, y @ v)])
exact = np.array([[area + shear], [area - shear]])
print(f"strains inside\n{strains}\nby Eshelby\n{exact}")

Path("out").mkdir(exist_ok=True)
solution.plot("out/fibre.png")
assert np.allclose(strains, exact, atol=1e-5)
