"""Temporary measurements."""
import cProfile, dataclasses, io, pstats, subprocess, sys, time, os
import numpy as np
def cold(name, S, K):
    t0 = time.perf_counter()
    import tessella as ts
    from benchmarks.peers import problems
    from benchmarks.peers.ours import side_by_side
    import jax; jax.devices(); jax.block_until_ready(jax.numpy.ones(3) + 1)
    from tessella.cells import device, device_merging
    global TIMES, kept_
    TIMES = {}; kept_ = [0]
    def wrap(mod, n):
        g = getattr(mod, n)
        def inner(*a):
            t = time.perf_counter(); r = g(*a); (n == 'grid' or jax.block_until_ready(r)); TIMES[n] = time.perf_counter() - t; return r
        setattr(mod, n, inner)
    wrap(device, "map_cells"); wrap(device, "merge"); wrap(device, "fit_cells"); wrap(device, "grid")
    t1 = time.perf_counter(); case = problems.get(name)
    s = side_by_side(case, S, K); t2 = time.perf_counter()
    f = kept_[-1]
    print("COLD parts", {k: round(v, 2) for k, v in TIMES.items()})
    print(f"COLD {name} import+device {t1-t0:.2f} first solve {t2-t1:.2f}", {k: round(v, 3) for k, v in s.report.seconds.items()}, flush=True)
if len(sys.argv) > 1:
    cold(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])); sys.exit()
env = {**os.environ, "TESSELLA_CACHE": "off"}
subprocess.run([sys.executable, __file__, "variable-6", "32", "170"], env=env)
subprocess.run([sys.executable, __file__, "variable-4", "8", "160"], env=env)
subprocess.run([sys.executable, __file__, "variable-4", "6", "200"], env=env)
os.environ["TESSELLA_CACHE"] = "off"
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
for name, S, K in (("variable-4", 8, 160), ("variable-6", 32, 170), ("laplace-6", 32, 170)):
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
    if False:
        p = cProfile.Profile(); p.enable(); side_by_side(case, S, K); p.disable()
        o = io.StringIO(); pstats.Stats(p, stream=o).sort_stats("tottime").print_stats(28); print("\n".join(l[:130] for l in o.getvalue().splitlines()[6:]))
case = problems.get("variable-6"); prob = dataclasses.replace(case.stated(), exact=None)
fast = dataclasses.replace(prob, equation=ts.Equation(prob.equations[0].operator, jax.jit(lambda q: case.source(q[:, 0], q[:, 1], jnp))))
for _ in range(6):
    t = time.perf_counter(); b = ts.solve(fast, coupling="interfaces", subdomains=32, features=170, estimate=False); t = time.perf_counter() - t
print("variable-6 with a compiled right-hand side: %.1f ms" % (1e3 * t), {k: round(1e3 * v, 1) for k, v in b.report.seconds.items()}, flush=True)
p = cProfile.Profile(); p.enable(); b = ts.solve(fast, coupling="interfaces", subdomains=32, features=170, estimate=False); p.disable()
o = io.StringIO(); pstats.Stats(p, stream=o).sort_stats("cumtime").print_stats(60); print("\n".join(l[:130] for l in o.getvalue().splitlines()[6:] if "tessella" in l or "jax" in l))
# --- others
e3 = ts.gallery.get("poisson-3d").problem()
w = ts.gallery.get("wave").problem()
for label, p, S, K in (("poisson-3d", e3, 3, 600), ("poisson-3d", e3, 4, 600), ("wave", w, (4, 4, 2), 550), ("poisson-3d", e3, 8, 400)):
    kept.clear()
    try:
        t0 = time.perf_counter(); s = ts.solve(p, coupling="interfaces", subdomains=S, features=K, estimate=False); t0 = time.perf_counter() - t0
        blind = dataclasses.replace(p, exact=None); ms = []
        for _ in range(3):
            t = time.perf_counter(); b = ts.solve(blind, coupling="interfaces", subdomains=S, features=K, estimate=False); ms.append(time.perf_counter() - t)
        print(label, S, K, "first %.2f warm %.3f s" % (t0, np.median(ms)), {k: round(v, 3) for k, v in b.report.seconds.items()}, s.report.error["l1_normalised"], "device" if kept else "HOST", b.report.solver_note, flush=True)
        if S == 8: continue
        with on_the_cpu(True):
            for _ in range(2): t = time.perf_counter(); b = ts.solve(blind, coupling="interfaces", subdomains=S, features=K, estimate=False); t = time.perf_counter() - t
        print("   on its CPU %.3f" % t, flush=True)
    except Exception as ex:
        print(label, S, K, "FAILED", repr(ex)[:300], flush=True)
