"""An operator written as a function: what is an option worth?

Black and Scholes (1973): V_t = sigma^2 S^2 V_SS / 2 + r S V_S - r V, where t is the time left and S
the price of a share. A call with a strike of 100 that has a year left, at 5 percent interest and 20
percent volatility, is worth 10.4506 while the share is worth 100.
"""

import numpy as np
from scipy.special import ndtr

import tessella as ts

STRIKE, RATE, VOLATILITY, SOON = 100.0, 0.05, 0.2, 0.05


def call(p):
    """The known price, given at both ends and where the option has eighteen days left."""
    S, t = p[:, 0], p[:, 1]
    spread = VOLATILITY * np.sqrt(t)
    d = (np.log(S / STRIKE) + (RATE + VOLATILITY**2 / 2) * t) / spread
    return S * ndtr(d) - STRIKE * np.exp(-RATE * t) * ndtr(d - spread)


@ts.operator
def black_scholes(d, x):  # d(S=2) are the values of V_SS, d() those of V
    S = x[:, 0]
    return d(t=1) - VOLATILITY**2 / 2 * S**2 * d(S=2) - RATE * S * d(S=1) + RATE * d()


problem = ts.Problem(
    domain=ts.Box(S=(20, 250), t=(SOON, 1)),
    equation=ts.Equation(black_scholes),
    conditions=[ts.Dirichlet(call, on=("Smin", "Smax")), ts.Initial(call)],
    name="call",
)
solution = ts.solve(problem, tol=1e-5)
price = solution([(100.0, 1.0)])[0]
delta = solution.apply(ts.D(S=1), [(100.0, 1.0)])[0]
exactly = call(np.array([[100.0, 1.0]]))[0]
print(f"price {price:.6f}, exactly {exactly:.6f}; delta {delta:.6f}, exactly {ndtr(0.35):.6f}")

assert abs(price - exactly) < 1e-4
assert abs(delta - ndtr(0.35)) < 1e-5
