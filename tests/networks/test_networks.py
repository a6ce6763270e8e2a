"""Trained networks: the same loss, an honest optimiser, and a Solution like any other."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.features.random_features import Layer
from tessella.networks.fit import as_basis, least_squares
from tessella.networks.network import Parameters, initial_parameters
from tessella.networks.objective import Objective, build_objective
from tessella.networks.training import Adam, adam_begin, adam_step
from tessella.overlap.system import assemble, weigh

SIZE = {"subdomains": 4, "hidden": 8}
STEPS = ts.Training(steps=150, learning_rate=1e-2)


@pytest.fixture(scope="module")
def decay():
    """u' + u = 0 on [0, 1], u(0) = 1 with a weight to be balanced: easy enough to be learnt."""
    return ts.Problem(
        ts.Box(x=(0, 1)),
        ts.Equation(ts.D(x=1) + 1),
        [ts.Dirichlet(1.0, on="xmin")],
        exact=lambda p: np.exp(-p[:, 0]),
        name="decay",
    )


@pytest.fixture(scope="module")
def learnt(decay):
    return ts.fbpinn(decay, **SIZE, training=STEPS)


def basis_for(problem, features, subdomains=3):
    return ts.Basis(ts.Decomposition(problem.domain, subdomains, 2.9), features, 1)


def problems(hard_problem):
    mixed = ts.D(x=1, y=1) + (lambda p: p[:, 0]) * ts.D(y=2) - ts.D(x=1)
    third = ts.Equation(ts.D(x=3) - ts.D(x=1), lambda p: np.cos(p[:, 0]))
    return {
        "ansatz": (hard_problem, ts.RandomFeatures(6)),
        "balanced, mixed derivatives, two layers": (
            ts.Problem(
                ts.Box(x=(0, 1), y=(0, 2)), ts.Equation(mixed, 1.0), [ts.Robin(1.0, 2.0, 1.0)]
            ),
            ts.RandomFeatures(4, depth=2, activation="sin"),
        ),
        "third order, weights": (
            ts.Problem(ts.Box(x=(0, 1)), third, [ts.Dirichlet(0.0, weight=1e3)]),
            ts.RandomFeatures(6),
        ),
    }


def test_the_residual_is_the_feature_solvers_for_the_same_layers(hard_problem, rng):
    for name, (problem, features) in problems(hard_problem).items():
        basis = basis_for(problem, features)
        rows = ts.Grid(2.0).rows(problem, basis)
        system = assemble(problem, basis, rows)
        objective, _, weights = least_squares(problem, basis, rows)
        a = rng.standard_normal(basis.columns)
        output = jnp.asarray(a.reshape(basis.decomposition.count, -1))
        networks = initial_parameters(basis)._replace(output=output)
        expected = np.asarray(system.M.matvec(a)) - system.h
        found = jax.jit(Objective.residual)(objective, networks)
        size = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * size, err_msg=name)
        assert weights == pytest.approx(system.weights), name


def test_the_gradient_is_the_slope_of_the_loss_and_finite_at_the_walls(rng):
    problem = ts.gallery.get("laplace").problem(n=2)
    basis = basis_for(problem, ts.RandomFeatures(4, depth=2), 2)
    objective, _, _ = least_squares(problem, basis, ts.Grid().rows(problem, basis))
    networks = initial_parameters(basis)
    measure = jax.jit(Objective.value_and_gradient)
    loss, gradient = measure(objective, networks)
    assert all(bool(jnp.all(jnp.isfinite(g))) for g in jax.tree.leaves(gradient))
    direction = jax.tree.map(lambda p: jnp.asarray(rng.standard_normal(p.shape)), networks)
    slope = sum(
        float(jnp.vdot(g, v))
        for g, v in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)
    )

    def along(h):
        return float(
            measure(objective, jax.tree.map(lambda p, v: p + h * v, networks, direction))[0]
        )

    assert (along(1e-5) - along(-1e-5)) / 2e-5 == pytest.approx(slope, rel=1e-6)
    r = np.asarray(jax.jit(Objective.residual)(objective, networks))
    assert float(loss) == pytest.approx(r @ r, rel=1e-12)


def test_leaving_out_the_networks_that_do_not_see_a_point_changes_nothing(hard_problem):
    basis = ts.Basis(ts.Decomposition(hard_problem.domain, 8, 1.5), ts.RandomFeatures(4), 0)
    rows = weigh(hard_problem, ts.Grid().rows(hard_problem, basis))
    J, n = basis.decomposition.count, len(rows.points)
    everything = (np.arange(J), np.tile(np.arange(n, dtype=np.int32), (J, 1)), np.full(J, n))
    few = build_objective(basis, rows.points, rows.symbol, rows.h)
    all_pairs = build_objective(basis, rows.points, rows.symbol, rows.h, [everything])
    assert sum(b.rows.size for b in few.batches) < J * n / 3
    networks = initial_parameters(basis)
    (loss, gradient), (expected, whole) = (
        jax.jit(Objective.value_and_gradient)(objective, networks) for objective in (few, all_pairs)
    )
    assert float(loss) == pytest.approx(float(expected), rel=1e-12)
    for g, w in zip(jax.tree.leaves(gradient), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12 * float(jnp.abs(w).max()))


def test_adam_is_kingma_and_bas_algorithm(rng):
    p = rng.standard_normal(5)
    state, ours = adam_begin(jnp.asarray(p)), jnp.asarray(p)
    m = v = np.zeros(5)
    for t in range(1, 8):
        g = rng.standard_normal(5) * 10.0 ** rng.integers(-6, 6, 5)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        state, ours = adam_step(state, ours, jnp.asarray(g), t, 1e-3)
        np.testing.assert_allclose(ours, p, rtol=1e-12)
    assert isinstance(state, Adam)


def test_training_learns(learnt):
    report, history = learnt.report, learnt.history
    assert (report.solver, report.stop_reason, report.iterations) == ("fbpinn", "step limit", 150)
    assert history.residual[-1] < 0.2 * history.residual[0]
    assert report.error["l1_normalised"] < 0.1
    assert report.error_oracle_minimum == np.nanmin(history.error)
    assert np.flatnonzero(np.isfinite(history.error)).tolist() == [0, *range(9, 150, 10)]
    assert history.error[-1] == pytest.approx(report.error["l1_normalised"], rel=1e-9)
    assert report.stopping_rule_iteration == np.argmin(history.residual)
    assert report.columns == 4 * (8 + 8 + 9)
    assert report.columns_kept is None
    assert "100 trained parameters" in str(learnt)


def test_the_residuals_of_the_report_add_up_to_the_loss(decay, learnt):
    untrained = dataclasses.replace(learnt.basis)
    rows = ts.Grid(2.0).rows(decay, untrained)
    objective, _, weights = least_squares(decay, untrained, rows)
    networks = Parameters(
        tuple(Layer(*map(jnp.asarray, layer)) for layer in learnt.basis.layers),
        jnp.asarray(learnt.coefficients.reshape(4, -1)),
    )
    loss = sum(weights[part] * r**2 for part, r in learnt.report.residual.items())
    residual = jax.jit(Objective.residual)(objective, networks)
    assert weights == learnt.report.weights
    assert float(jnp.vdot(residual, residual)) == pytest.approx(loss, rel=1e-9)


def test_a_pinn_is_one_network_of_inputs_scaled_to_the_unit_box():
    box = ts.Box(x=(1, 3), y=(-4, 0))
    ansatz = ts.Ansatz(lambda p: (p[:, 0] - 1) * (3 - p[:, 0]), lambda p: jnp.cos(p[:, 1]))
    problem = ts.Problem(box, ts.Equation(ts.Laplacian(), 1.0), ansatz=ansatz)
    found = ts.pinn(problem, hidden=5, collocation=ts.Grid(points_per_axis=4), training=STEPS)
    (W1, b1), (W2, b2) = ((w[0], b[0]) for w, b in found.basis.layers)
    a = found.coefficients
    points = np.random.default_rng(0).uniform(box.lower, box.upper, (50, 2))
    hidden = np.tanh(np.tanh((points - [2, -2]) / [1, 2] @ W1.T + b1) @ W2.T + b2)
    expected = ansatz.offset(points) + ansatz.multiplier(points) * (hidden @ a[:-1] + a[-1])
    np.testing.assert_allclose(found(points), expected, rtol=1e-12, atol=1e-14)
    assert found([[1.0, -2.0]]) == pytest.approx(np.cos(-2.0), abs=1e-15)
    assert found.report.columns == 5 * 2 + 5 + 5 * 5 + 5 + 6
    assert found.report.error is None
    assert found.report.error_at_stopping_rule is None


def test_a_network_without_windows_takes_second_derivatives_without_first():
    square = ts.Box(x=(0, 1), y=(0, 1))
    problem = ts.Problem(square, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet()])
    few = ts.Grid(points_per_axis=4)
    trained = ts.pinn(problem, hidden=5, depth=1, collocation=few, training=STEPS)
    left = trained.residual(square.grid((4, 4)))
    assert trained.report.residual["equation"] == pytest.approx(np.sqrt(np.mean(left**2)))


def test_a_trained_solution_differentiates_saves_loads_and_plots(learnt, tmp_path):
    x = np.linspace(0.05, 0.95, 9)
    slope = (learnt(x + 1e-6) - learnt(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(learnt.apply(ts.D(x=1), x), slope, rtol=1e-7)
    again = ts.load(learnt.save(tmp_path / "u.npz"))
    np.testing.assert_array_equal(again(x), learnt(x))
    np.testing.assert_array_equal(again.history.residual, learnt.history.residual)
    assert again.report == learnt.report
    learnt.plot(tmp_path / "u.png")
    assert (tmp_path / "u.png").stat().st_size > 10_000


def test_only_numbers_changing_compiles_nothing(decay, learnt, compilations):
    before = compilations()
    other = dataclasses.replace(
        decay, equation=ts.Equation(ts.D(x=1) + 3.0, 1.0), exact=decay.exact
    )
    rate = ts.Training(steps=30, learning_rate=5e-3, track_every=7, patience=1000)
    ts.fbpinn(other, **SIZE, seed=5, training=rate)
    assert compilations() == before


class TestCheckpoints:
    def test_going_on_equals_never_having_stopped(self, decay, learnt, tmp_path):
        file = tmp_path / "state.npz"
        part = dataclasses.replace(STEPS, steps=70, checkpoint=file, checkpoint_every=30)
        ts.fbpinn(decay, **SIZE, training=part)
        whole = ts.fbpinn(decay, **SIZE, training=dataclasses.replace(part, steps=150))
        np.testing.assert_array_equal(whole.coefficients, learnt.coefficients)
        np.testing.assert_array_equal(whole.history.residual, learnt.history.residual)
        np.testing.assert_array_equal(whole.history.error, learnt.history.error)
        assert whole.report.error == learnt.report.error

    def test_an_interrupted_training_keeps_its_state(self, decay, learnt, tmp_path):
        file = tmp_path / "state.npz"

        def interrupt(done, limit, residual):
            if done >= 60:
                raise KeyboardInterrupt

        training = dataclasses.replace(STEPS, checkpoint=file)
        half = ts.fbpinn(decay, **SIZE, training=training, progress=interrupt)
        assert half.report.stop_reason == "interrupted"
        assert 60 <= half.report.iterations < 150
        assert half.report.iterations == len(half.history.residual)
        whole = ts.fbpinn(decay, **SIZE, training=training)
        np.testing.assert_array_equal(whole.coefficients, learnt.coefficients)

    @pytest.fixture
    def stored(self, decay, tmp_path):
        training = ts.Training(steps=5, checkpoint=tmp_path / "state.npz")
        ts.fbpinn(decay, **SIZE, training=training)
        return training

    def test_another_problem_is_refused(self, decay, stored):
        named = dataclasses.replace(decay, name="growth")
        with pytest.raises(ValueError, match="has problem 'decay', but this training 'growth'"):
            ts.fbpinn(named, **SIZE, training=stored)
        changed = dataclasses.replace(decay, equation=ts.Equation(ts.D(x=1) + 2))
        with pytest.raises(ValueError, match=r"belongs to another problem.*delete it to start"):
            ts.fbpinn(changed, **SIZE, training=stored)

    def test_other_networks_are_refused(self, decay, stored):
        with pytest.raises(ValueError, match="has seed 0, but this training 3: name another file"):
            ts.fbpinn(decay, **SIZE, seed=3, training=stored)

    def test_what_is_no_checkpoint_is_refused(self, decay, stored):
        Path(stored.checkpoint).write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match="is not a tessella checkpoint, or is truncated"):
            ts.fbpinn(decay, **SIZE, training=stored)

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            ("state_0", lambda array: array[:1], r"'state_0' has shape \(1,"),
            ("state_0", lambda array: np.nan * array, "'state_0' has numbers that are NaN or"),
            ("history", lambda array: array[:, :3], "5] steps with 3 of history"),
        ],
    )
    def test_a_state_that_makes_no_sense_is_refused(self, decay, stored, name, change, message):
        edit_old(stored.checkpoint, name, change)
        with pytest.raises(ValueError, match=rf"state\.npz is damaged: .*{message}"):
            ts.fbpinn(decay, **SIZE, training=stored)

    def test_a_number_that_changed_is_noticed(self, decay, stored):
        with np.load(stored.checkpoint) as file:
            arrays = dict(file)
        arrays["state_0"].flat[0] += 1e-9
        np.savez(stored.checkpoint, **arrays)
        with pytest.raises(
            ValueError, match=r"state\.npz is damaged: numbers of 'state_0' have cha"
        ):
            ts.fbpinn(decay, **SIZE, training=stored)

    def test_the_version_without_digests_goes_on(self, decay, stored):
        edit_old(stored.checkpoint, "state_0", lambda array: array)
        longer = dataclasses.replace(stored, steps=7)
        assert ts.fbpinn(decay, **SIZE, training=longer).report.iterations == 7


def edit_old(path, name, change):
    """Rewrite a checkpoint with an array changed, as the version that had no digests."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    del arrays["digest"], header["digests"]
    header["version"] = 1
    arrays[name] = change(arrays[name])
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


@pytest.mark.parametrize("rate", [1e4, 1e200])
def test_a_diverging_training_stops_and_keeps_its_best_state(decay, rate):
    found = ts.fbpinn(decay, **SIZE, training=ts.Training(steps=400, learning_rate=rate))
    assert found.report.stop_reason == "diverged"
    assert found.report.advice.startswith("lower learning_rate")
    assert found.report.iterations < 400
    finite = found.history.residual[np.isfinite(found.history.residual)]
    loss = sum(found.report.weights[k] * r**2 for k, r in found.report.residual.items())
    assert loss == pytest.approx(finite.min() ** 2, rel=1e-9)
    assert np.all(np.isfinite(found(np.linspace(0, 1, 11))))


def test_patience_ends_a_training_that_does_not_improve(decay):
    training = ts.Training(steps=5000, learning_rate=1e-12, patience=20)
    found = ts.fbpinn(decay, **SIZE, training=training)
    assert found.report.stop_reason == "stagnated: the loss stopped falling"
    assert found.report.iterations == 21


def test_progress_counts_steps_and_falls(decay):
    seen = []
    ts.fbpinn(decay, **SIZE, training=STEPS, progress=lambda *figures: seen.append(figures))
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert seen[-1][:2] == (150, 150)
    assert seen[-1][2] < seen[0][2]


class NoWalls(ts.Grid):
    """A placement of points that forgets the conditions."""

    def rows(self, problem, basis):
        return [
            dataclasses.replace(part, points=part.points[: len(part.points) * (i == 0)])
            for i, part in enumerate(super().rows(problem, basis))
        ]


@pytest.mark.parametrize("solve", [ts.pinn, ts.fbpinn, ts.solve])
def test_a_condition_without_points_is_refused(decay, solve):
    size = {ts.pinn: {}, ts.fbpinn: SIZE, ts.solve: {"subdomains": 2, "features": 3}}[solve]
    with pytest.raises(ValueError, match="'dirichlet' has no collocation points"):
        solve(decay, collocation=NoWalls(points_per_axis=30), **size)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "steps must be a whole number of at least 1, got 2.5"),
        ({"track_every": "often"}, "track_every must be a whole number of at least 1, got 'often'"),
        ({"patience": -1}, "patience must be a whole number of at least 1, got -1"),
        ({"learning_rate": 0}, "learning_rate must be a positive number, got 0"),
        ({"learning_rate": np.nan}, "learning_rate must be a positive number, got nan"),
    ],
)
def test_bad_training_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        ts.Training(**change)


def test_a_network_is_a_basis_and_its_coefficients(decay):
    basis = basis_for(decay, ts.RandomFeatures(4))
    trained, a = as_basis(basis, initial_parameters(basis))
    for own, drawn in zip(trained.layers, basis.layers, strict=True):
        np.testing.assert_array_equal(own.weights, drawn.weights)
    bound = 1 / np.sqrt(4)
    assert np.abs(a).max() <= bound
    assert np.abs(a).max() > 0.6 * bound
