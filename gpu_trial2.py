"""Temporary measurements."""
import time, os, sys
import numpy as np, jax, jax.numpy as jnp
import tessella as ts
from benchmarks.peers import problems
from benchmarks.peers.ours import side_by_side
from tessella.cells import device, device_merging
from tessella.cells.device_merging import grid, Numbers, Grid
jax.config.update("jax_enable_compilation_cache", False)
def timed(f, n=5):
    f(); out = []
    for _ in range(n):
        t = time.perf_counter(); jax.block_until_ready(f()); out.append(time.perf_counter() - t)
    return 1e3 * float(np.median(out))
BASE = {}
OPTS = {
    "autotune0": {"xla_gpu_autotune_level": 0},
    "no triton": {"xla_gpu_enable_triton_gemm": False},
    "both": {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False},
    "both, no graphs": {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False, "xla_gpu_enable_command_buffer": ""},
    "both, opt 1": {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False, "xla_backend_optimization_level": 1},
    "none": {},
}
for S in (8, 32):
    p, r, n = 14, 171, 441
    g = grid((S, S), (False, False), (Numbers(p, p), Numbers(p, p))); J = S * S
    rng = np.random.default_rng(0)
    T = jnp.asarray(rng.standard_normal((J, 4 * p, 4 * p)) * 0.05)
    f8 = lambda *s: jnp.asarray(rng.standard_normal(s))
    st = device.Statement(jnp.arange(J), (tuple(f8(J, n) for _ in range(4)),), (tuple(f8(n, r) for _ in range(4)),))
    walls = tuple(device.Statement(jnp.arange(S) * (S - 1), ((f8(S, 21),),), ((f8(21, r),),)) for _ in range(4))
    sts = (st, *walls); h = (f8(J, n), *(f8(S, 21) for _ in walls))
    rows = tuple(device.Rowed(f8(21, r), f8(21, p), f8(p, r)) for _ in range(4))
    ports = device.Crossing(rows, *(jnp.asarray(x) for x in (g.beyond, g.taken, g.given)))
    for name, o in OPTS.items():
        if S == 32 and name == "none": continue
        line = []
        try:
            t = time.perf_counter(); low = device_merging.merge.lower(T, g); t1 = time.perf_counter(); c = low.compile(compiler_options=o); t2 = time.perf_counter()
            line.append(f"merge trace {t1-t:.2f} compile {t2-t1:.2f} run {timed(lambda: c(T)):.2f}"); M = c(T)
            t = time.perf_counter(); low = device.map_cells.lower(sts, ports, (r,)); t1 = time.perf_counter(); c = low.compile(compiler_options=o); t2 = time.perf_counter()
            line.append(f"map trace {t1-t:.2f} compile {t2-t1:.2f} run {timed(lambda: c(sts, ports)):.2f}"); lv = c(sts, ports)
            t = time.perf_counter(); low = device.fit_cells.lower(sts, h, ports.given, lv, M, g, (r,)); t1 = time.perf_counter(); c = low.compile(compiler_options=o); t2 = time.perf_counter()
            line.append(f"fit trace {t1-t:.2f} compile {t2-t1:.2f} run {timed(lambda: c(sts, h, ports.given, lv, M)):.2f}")
        except Exception as ex: line.append(repr(ex)[:200])
        print(S, name, "; ".join(line), flush=True)
case = problems.get("variable-6")
import dataclasses
prob = dataclasses.replace(case.stated(), exact=None)
def go(prob): return ts.solve(prob, coupling="interfaces", subdomains=32, features=170, estimate=False)
