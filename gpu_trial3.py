import time, os, sys, dataclasses
import numpy as np, jax, jax.numpy as jnp
import tessella as ts
from benchmarks.peers import problems
case = problems.get("variable-6")
prob = dataclasses.replace(case.stated(), exact=None)
x = np.random.rand(451584, 2)
for label, lib in (("np", np), ("jnp", jnp)):
    f = lambda p: case.source(p[:, 0], p[:, 1], lib)
    np.asarray(f(x)); out = []
    for _ in range(5):
        t = time.perf_counter(); np.asarray(f(x)); out.append(1e3 * (time.perf_counter() - t))
    print("source", label, "%.1f ms" % np.median(out), {k: v for k, v in os.environ.items() if "MALLOC" in k}, flush=True)
