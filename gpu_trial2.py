"""Temporary measurements."""
import time, os, sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
import numpy as np, jax, jax.numpy as jnp
import tessella as ts
from tessella.cells import device, device_merging as dm
from tessella.cells.device_merging import grid, Numbers, Grid
jax.config.update("jax_enable_compilation_cache", False)
O = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
jax.jit(lambda x: x @ x).lower(jnp.eye(50)).compile(compiler_options=O)(jnp.eye(50))
S, p = 32, 14
g = grid((S, S), (False, False), (Numbers(p, p), Numbers(p, p)))
st = g.order.stages
def args(s):
    a, b = dm._members(st, s); sz = [st[c] for c in (s.left, s.right)]
    sh = [jax.ShapeDtypeStruct((c.count, sum(c.sizes.given), sum(c.sizes.taken)), np.float64) for c in sz]
    return sh, a, b
def const(s):
    (l, r), a, b = args(s)
    return jax.jit(lambda L, R: dm._join(dm._some(L, a, 0), dm._some(R, b, 0), s.numbers)), (l, r)
def arged(s):
    (l, r), a, b = args(s)
    f = jax.jit(lambda L, R, a, b, at: dm._join(dm._some(L, a, 0), dm._some(R, b, 0), at))
    return f, (l, r, a, b, s.numbers)
inner = [s for s in st if s.cells is None][:-1]
orig = dm.inverted
def newton_noeye(D): return orig(D)
for name, mk, inv in (("const", const, None), ("arg", arged, None), ("arg, lapack inverse", arged, lambda D: (jnp.linalg.inv(D), jnp.array(True))), ("arg, no inverse", arged, lambda D: (D, jnp.array(True)))):
    dm.inverted = inv or orig
    out = []
    for s in inner:
        f, a = mk(s); t = time.perf_counter(); low = f.lower(*a); t1 = time.perf_counter(); low.compile(compiler_options=O); out.append((round(t1 - t, 2), round(time.perf_counter() - t1, 2)))
    print(name, "total %.2f" % sum(x + y for x, y in out), out, flush=True)
dm.inverted = orig
for n in (4, 16):
    t = time.perf_counter(); lows = [f.lower(*a) for f, a in map(arged, inner)]; t1 = time.perf_counter()
    with ThreadPoolExecutor(n) as pool: cs = list(pool.map(lambda l: l.compile(compiler_options=O), lows))
    print("parallel", n, "lower %.2f compile %.2f" % (t1 - t, time.perf_counter() - t1), flush=True)
rng = np.random.default_rng(0); T = jnp.asarray(rng.standard_normal((S * S, 4 * p, 4 * p)) * 0.05)
def run():
    maps = [T if s.cells is not None else None for s in st]; k = 0; joins = []
    for i, s in enumerate(st):
        if s.cells is not None or i == len(st) - 1: continue
        a, b = dev[k]; maps[i], j, r = cs[k](maps[s.left], maps[s.right], a, b, ats[k]); joins.append((j, r)); k += 1
    return joins
dev = [jax.device_put(args(s)[1:]) for s in inner]; ats = [jax.device_put(s.numbers) for s in inner]
run(); out = []
for _ in range(6):
    t = time.perf_counter(); r = run(); t1 = time.perf_counter(); jax.block_until_ready(r); out.append((round(1e3 * (t1 - t), 2), round(1e3 * (time.perf_counter() - t), 2)))
print("stage by stage: dispatch, total ms", out, flush=True)
