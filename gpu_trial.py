"""Temporary measurements."""
import cProfile, dataclasses, io, pstats, subprocess, sys, time, os
import numpy as np
def cold(name, S, K):
    t0 = time.perf_counter()
    import tessella as ts
    from benchmarks.peers import problems
    from benchmarks.peers.ours import side_by_side
    import jax; jax.devices(); jax.block_until_ready(jax.numpy.ones(3) + 1)
    t1 = time.perf_counter(); case = problems.get(name)
    s = side_by_side(case, S, K); t2 = time.perf_counter()
    print(f"COLD {name} import+device {t1-t0:.2f} first solve {t2-t1:.2f}", {k: round(v, 3) for k, v in s.report.seconds.items()}, flush=True)
if len(sys.argv) > 1:
    cold(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])); sys.exit()
env = {**os.environ, "TESSELLA_CACHE": "off"}
subprocess.run([sys.executable, __file__, "variable-6", "32", "170"], env=env)
subprocess.run([sys.executable, __file__, "variable-4", "8", "170"], env=env)
import jax, jax.numpy as jnp
import tessella as ts
from tessella.arrays import on_the_cpu
from benchmarks.peers import problems
from benchmarks.peers.ours import side_by_side
from tessella.cells import device, device_merging
print(jax.devices(), jax.__version__)
def timed(f, n=5):
    f(); out = []
    for _ in range(n):
        t = time.perf_counter(); jax.block_until_ready(f()); out.append(time.perf_counter() - t)
    return 1e3 * float(np.median(out))
def err(case, s): e = case.exact(case.points); return np.abs(s(case.points) - e).mean() / e.std()
kept = []
orig = device.DeviceFactors
device.DeviceFactors = lambda *a: kept.append(orig(*a)) or kept[-1]
for name, S, K in (("variable-4", 8, 150), ("variable-4", 8, 170), ("variable-4", 8, 200), ("variable-6", 32, 150), ("variable-6", 32, 170), ("variable-6", 32, 180), ("laplace-6", 32, 170)):
    case = problems.get(name); kept.clear()
    for i in range(3):
        t = time.perf_counter(); s = side_by_side(case, S, K); t = time.perf_counter() - t
    ms = []
    for i in range(5):
        t = time.perf_counter(); s = side_by_side(case, S, K); ms.append(1e3 * (time.perf_counter() - t))
    print(name, S, K, "warm %.1f ms" % np.median(ms), {k: round(1e3 * v, 1) for k, v in s.report.seconds.items()}, "e %.1e" % err(case, s), "device" if kept else "HOST", flush=True)
    if kept:
        f = kept[-1]; widths = tuple(d.columns for d in f.space.draws)
        grid = f.grid; sysm = f.system
        rows, _ = device._rowed(sysm, f.space)
        ports = device.Crossing(*jax.device_put((rows, grid.beyond, grid.taken, grid.given)))
        print("   r", widths, "J", len(grid.beyond), "cond %.2g growth %.2g" % (f.condition, float(f.merged.growth)), "map %.2f" % timed(lambda: device.map_cells(f.statements, ports, widths)),
              "merge %.2f" % timed(lambda: device_merging.merge(f.leaves.T, grid)),
              "upload %.2f" % timed(lambda: jax.device_put(tuple(p.h for p in sysm.asked))),
              "upload c %.2f" % timed(lambda: [device._stated(f.space, p) for p in sysm.asked]))
        h = jax.device_put(tuple(p.h for p in sysm.asked))
        print("   fit %.2f" % timed(lambda: device.fit_cells(f.statements, h, f.given, f.leaves, f.merged, grid, widths)), flush=True)
    if S == 32 and K == 170:
        p = cProfile.Profile(); p.enable(); side_by_side(case, S, K); p.disable()
        o = io.StringIO(); pstats.Stats(p, stream=o).sort_stats("tottime").print_stats(28); print("\n".join(l[:130] for l in o.getvalue().splitlines()[6:]))
# --- pieces of leaves
f = [k for k in kept][-1]
G = None
def gram(statements, ports, widths):
    grams = jnp.stack([o.rows.T @ o.rows for o in ports.rows])
    G = jnp.einsum("jp,prs->jrs", ports.beyond, grams)
    for s in statements:
        own = device._gram(s, widths); G = G + own if len(own) == len(G) else G.at[s.members].add(own)
    return G
gram = jax.jit(gram, static_argnums=2)
print("gram %.2f" % timed(lambda: gram(f.statements, ports, widths)))
G = gram(f.statements, ports, widths)
chol = jax.jit(jnp.linalg.cholesky); L = chol(G)
print("cholesky %.2f" % timed(lambda: chol(G)))
tri = jax.jit(lambda L: jax.lax.linalg.triangular_solve(L, jnp.broadcast_to(jnp.eye(L.shape[1]), L.shape), left_side=True, lower=True))
print("trsm eye %.2f" % timed(lambda: tri(L)))
LB = jnp.broadcast_to(jnp.asarray(np.random.rand(L.shape[1], 60)), (len(L), L.shape[1], 60))
tri2 = jax.jit(lambda L, B: jax.lax.linalg.triangular_solve(L, B, left_side=True, lower=True))
print("trsm 60 %.2f" % timed(lambda: tri2(L, LB)))
hh = jax.jit(lambda h: jnp.einsum("jkr,jks->jrs", h, h)); H = tri(L); print("syrk %.2f" % timed(lambda: hh(H)))
inv = jax.jit(jnp.linalg.inv); 
print("newton G %.2f" % timed(lambda: jax.jit(device_merging.inverted)(G)[0], 3))
def small_chol_inv(P):
    L = jnp.linalg.cholesky(P); h = jax.lax.linalg.triangular_solve(L, jnp.broadcast_to(jnp.eye(P.shape[1]), P.shape), left_side=True, lower=True)
    return jnp.einsum("jkr,jks->jrs", h, h), jnp.diagonal(L, axis1=1, axis2=2)
def small_gj(P):
    n = P.shape[1]
    def step(k, c):
        P, d = c; row = jax.lax.dynamic_slice_in_dim(P, k, 1, 1); col = jax.lax.dynamic_slice_in_dim(P, k, 1, 2); piv = jax.lax.dynamic_slice_in_dim(row, k, 1, 2)
        r = jnp.where(jnp.arange(n) == k, 1.0, row) / piv; e = jnp.where((jnp.arange(n) == k)[:, None], 0.0, col)
        Pn = jnp.where((jnp.arange(n) == k), 0.0, P); Pn = jnp.where((jnp.arange(n) == k)[:, None], r, Pn - e * r)
        return Pn, d.at[:, k].set(piv[:, 0, 0])
    P, d = jax.lax.fori_loop(0, n, step, (P, jnp.zeros(P.shape[:2]))); return P, jnp.sqrt(d)
def block_gj(G, b, small):
    J, n, _ = G.shape; N = -(-n // b) * b
    A = jnp.zeros((J, N, N)).at[:, :n, :n].set(G) if N > n else G
    if N > n: A = A + jnp.diag(jnp.where(jnp.arange(N) >= n, 1.0, 0.0))
    def step(A, k):
        s = k * b; P = jax.lax.dynamic_slice(A, (0, s, s), (J, b, b)); Pi, d = small(P)
        row = jax.lax.dynamic_slice(A, (0, s, 0), (J, b, N)); row = jax.lax.dynamic_update_slice(row, jnp.broadcast_to(jnp.eye(b), P.shape), (0, 0, s))
        col = jax.lax.dynamic_slice(A, (0, 0, s), (J, N, b)); col = jax.lax.dynamic_update_slice(col, jnp.zeros_like(P), (0, s, 0))
        R = Pi @ row; A = jax.lax.dynamic_update_slice(A, jnp.zeros((J, N, b)), (0, 0, s)); A = jax.lax.dynamic_update_slice(A, jnp.zeros((J, b, N)), (0, s, 0))
        A = A - col @ R; return jax.lax.dynamic_update_slice(A, R, (0, s, 0)), d
    A, d = jax.lax.scan(step, A, jnp.arange(N // b)); return A[:, :n, :n], d
ref = np.linalg.inv(np.asarray(G[:4]))
for b in (16, 32, 48, 64):
    for small in (small_chol_inv, small_gj):
        g = jax.jit(lambda G: block_gj(G, b, small)); t0 = time.perf_counter(); jax.block_until_ready(g(G)); t0 = time.perf_counter() - t0
        print("block GJ", b, small.__name__, "compile %.2f" % t0, "%.2f ms" % timed(lambda: g(G)), "err %.1e" % np.abs(np.asarray(g(G)[0][:4]) - ref).max(), flush=True)
# --- exchanges
rng = np.random.default_rng(0)
for B, n in ((512, 14), (256, 28), (128, 28), (64, 56), (16, 112), (4, 224), (1, 448), (1, 2000)):
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]; D = jnp.asarray(np.eye(n) - 0.95 * Q * rng.uniform(0, 1, n)) + jnp.zeros((B, 1, 1))
    cands = {"inv": inv, "newton": jax.jit(lambda D: device_merging.inverted(D)[0])}
    def fixed(D):
        eye = jnp.eye(D.shape[1]); size = jnp.abs(D).sum(axis=1).max(axis=1) * jnp.abs(D).sum(axis=2).max(axis=1); X = jnp.swapaxes(D, 1, 2) / size[:, None, None]
        return jax.lax.fori_loop(0, 16, lambda _, X: X + X @ (eye - D @ X), X)
    cands["fixed16"] = jax.jit(fixed)
    if n <= 112: cands["gj16"] = jax.jit(lambda D: block_gj(D, 16, small_gj)[0])
    line = []
    for k, g in cands.items():
        t0 = time.perf_counter(); X = jax.block_until_ready(g(D)); t0 = time.perf_counter() - t0
        line.append(f"{k} {timed(lambda: g(D)):.2f} ms (first {t0:.2f} s, {float(jnp.abs(jnp.eye(n) - D[0] @ X[0]).max()):.0e})")
    print("exchange", B, n, "; ".join(line), flush=True)
# --- others
e3 = ts.gallery.get("poisson-3d").problem()
w = ts.gallery.get("wave").problem()
for label, p, S, K in (("poisson-3d", e3, 3, 600), ("poisson-3d", e3, 4, 500), ("poisson-3d", e3, 4, 700), ("poisson-3d", e3, 8, 400), ("wave", w, (4, 4, 2), 550)):
    kept.clear()
    try:
        t0 = time.perf_counter(); s = ts.solve(p, coupling="interfaces", subdomains=S, features=K, estimate=False); t0 = time.perf_counter() - t0
        blind = dataclasses.replace(p, exact=None); ms = []
        for _ in range(3):
            t = time.perf_counter(); b = ts.solve(blind, coupling="interfaces", subdomains=S, features=K, estimate=False); ms.append(time.perf_counter() - t)
        print(label, S, K, "first %.2f warm %.3f s" % (t0, np.median(ms)), {k: round(v, 3) for k, v in b.report.seconds.items()}, s.report.error["l1_normalised"], "device" if kept else "HOST", b.report.solver_note, flush=True)
        with on_the_cpu(True):
            for _ in range(2): t = time.perf_counter(); b = ts.solve(blind, coupling="interfaces", subdomains=S, features=K, estimate=False); t = time.perf_counter() - t
        print("   on its CPU %.3f" % t, flush=True)
    except Exception as ex:
        print(label, S, K, "FAILED", repr(ex)[:300], flush=True)
