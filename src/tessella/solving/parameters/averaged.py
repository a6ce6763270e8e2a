"""What data tell of fields, averaged over all sizes, lengths and choices of functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from tessella.machine.arrays import Array
from tessella.solving.parameters.smooth import Part, Smooth

SWEEPS = 100
"""Visits of every coefficient before the average begins, and in each half of it; the average is
made longer, at most DOUBLED times, until its halves agree."""

DOUBLED = 4

AGREED = 0.3
"""Distance of the means of both halves, in standard deviations: the mean of all is off by half."""

MOVES = 3
"""Sizes, lengths and decays that are proposed for each field between visits."""

STEPS = np.array([0.7, 0.3, 0.5])
"""How far these are moved, in logarithms."""

LOOSE = 1e4
"""Standard deviation of what nothing is expected of, over what the data tell of it."""

SIZES = (1e-2, 1e12)
"""Of a field, over the smallest that data show; the square root of the largest if they leave some
parameter open, which rounding would hide beyond."""

OPEN = 1e-10
"""Eigenvalue of what data say of all parameters, each scaled to one, that leaves one open."""

NOISES = 1e3
"""The noise, over what a fit without any prior leaves over, and the other way round."""


class Told(NamedTuple):
    """How many functions of a field data tell, of how many, and its length."""

    functions: float
    of: int
    length: float


@dataclass(frozen=True)
class Averaged:
    """Mean and covariance of all coefficients, weights that say as much of them, the noise over
    what was assumed, and what is told of every field; whether a longer average is the same."""

    mean: Array
    covariance: Array
    weights: Array
    noise: float
    told: dict[str, Told]
    settled: bool


def averaged(J: Array, left: Array, parts: Sequence[Part], noise_known: bool) -> Averaged:
    """What is to be expected of d if left = J d + noise.

    J      derivatives (n, p) of the data by the parameters, over the noise
    left   what of the data the prior leaves unexplained, over the noise
    parts  what is expected of one part of the parameters after the other

    A Markov chain: Gibbs sampling of which coefficients occur, all values integrated out, and
    Metropolis steps of sizes, lengths, decays and, if it is not known, of the noise. Its random
    numbers are always the same.
    """
    chain = _Chain(J, left, parts, noise_known)
    chain.about = chain.sums(SWEEPS).mean
    halves = [chain.sums(SWEEPS), chain.sums(SWEEPS)]
    for _ in range(DOUBLED):
        if _apart(halves) < AGREED:
            break
        halves = [_added(halves), chain.sums(halves[0].count + halves[1].count)]
    found = _added(halves)
    noise = float(np.sqrt(found.noise / found.count))
    mean = chain.about + found.mean
    size = np.sqrt(np.maximum(np.diag(found.covariance) + mean**2, 1e-300))
    weights, told = np.zeros(len(size)), {}
    for part, own, (functions, length) in zip(parts, chain.slices, found.told, strict=True):
        if isinstance(part.expected, Smooth):
            weights[own] = noise / size[own]
            many = float(functions / found.count)
            told[part.name] = Told(many, part.size, float(np.exp(length / found.count)))
        else:
            weights[own] = noise * part.expected
    agree = _apart(halves) < AGREED and not chain.at_an_end()
    return Averaged(mean, found.covariance, weights, noise, told, agree)


@dataclass(frozen=True)
class _Sums:
    """Of coefficients, less what they are about, and of their products; of these as each is to be
    expected with the others given; of the noise squared, and of what fields are."""

    count: int
    first: Array
    second: Array
    alone: Array
    noise: float
    told: Array

    @property
    def mean(self) -> Array:
        return self.first / self.count

    @property
    def covariance(self) -> Array:
        """Coefficients that have not occurred yet may do so later."""
        found = self.second / self.count - np.outer(self.mean, self.mean)
        mean, square = self.alone / self.count
        found.flat[:: len(found) + 1] = np.maximum(np.diag(found), square - mean**2)
        return found


def _added(halves: Sequence[_Sums]) -> _Sums:
    one, other = halves
    return _Sums(
        one.count + other.count,
        one.first + other.first,
        one.second + other.second,
        one.alone + other.alone,
        one.noise + other.noise,
        one.told + other.told,
    )


def _apart(halves: Sequence[_Sums]) -> float:
    """The largest distance of two means, in standard deviations."""
    spread = np.sqrt(np.maximum(np.diag(_added(halves).covariance), 1e-300))
    return float(np.max(np.abs(halves[0].mean - halves[1].mean) / spread))


class _Chain:
    """Which coefficients occur, and how large they are expected."""

    def __init__(self, J: Array, left: Array, parts: Sequence[Part], noise_known: bool) -> None:
        self.G, self.b, self.square = J.T @ J, J.T @ left, float(left @ left)
        self.n, self.noise_known = len(left), noise_known
        self.draw = np.random.default_rng(0)
        self.parts = [part.expected for part in parts]
        ends = np.cumsum([0, *(part.size for part in parts)]).tolist()
        self.slices = [slice(*pair) for pair in pairwise(ends)]
        self.occur = np.ones(len(self.b), dtype=bool)
        self._kept: Any = (b"",)
        self.log_noise = self.first_noise = 0.0 if noise_known else self._left_over()
        seen = np.sqrt(np.maximum(np.diag(self.G), 1e-300))
        self.open = np.linalg.eigvalsh(self.G / np.outer(seen, seen))[0] < OPEN
        self.seen = seen / np.exp(self.log_noise)
        self.about = np.zeros(len(self.b))
        self.ranges = [self._range(i) for i in range(len(parts))]
        self.logs = np.mean(self.ranges, axis=2)
        self.expected = np.concatenate([self._deviations(i) for i in range(len(parts))])
        for i in self._smooth():
            self._begin(i)

    def _smooth(self) -> list[int]:
        return [i for i, field in enumerate(self.parts) if isinstance(field, Smooth)]

    def _range(self, i: int) -> Array:
        """Of the logarithms of size, length and decay."""
        field = self.parts[i]
        size = np.log(SIZES) / [1, 1 + self.open] - np.log(np.max(self.seen[self.slices[i]]))
        return np.stack([size, *(field.ranges if isinstance(field, Smooth) else np.zeros((2, 2)))])

    def _deviations(self, i: int) -> Array:
        field = self.parts[i]
        if isinstance(field, Smooth):
            return field.deviations(*np.exp(self.logs[i]))
        return np.asarray(1 / np.maximum(field, self.seen[self.slices[i]] / LOOSE))

    def _left_over(self) -> float:
        """The logarithm of the noise, if parameters were free."""
        fitted = float(self.b @ np.linalg.pinv(self.G, hermitian=True) @ self.b)
        free = max(self.n - np.linalg.matrix_rank(self.G, hermitian=True), 1)
        return 0.5 * float(np.log(max(self.square - fitted, 1e-12 * self.square) / free))

    def _begin(self, i: int) -> None:
        """With the likeliest size and length of some."""
        (small, large), (short, long) = self.ranges[i][:2]
        tried = []
        for size in np.linspace(small, large, 15):
            for length in np.linspace(short, long, 4):
                self._propose(i, np.array([size, length, self.logs[i, 2]]))
                tried.append((self._likely(), self.logs[i].copy()))
        self._propose(i, max(tried, key=lambda own: own[0])[1])

    def _propose(self, i: int, logs: Array) -> None:
        self.logs[i] = logs
        self.expected[self.slices[i]] = self._deviations(i)

    def _likely(self) -> float:
        """log p(left) of what occurs, all values integrated out."""
        A, c = self._joint(*self._occurring())
        noise = self.n * self.log_noise + self.square / 2 * np.exp(-2 * self.log_noise)
        if not len(c):
            return float(-noise)
        try:
            L = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:  # beyond double precision
            return -np.inf
        inside, _ = scipy.linalg.lapack.dtrtrs(L, c, lower=1)
        return float(inside @ inside / 2 - np.sum(np.log(np.diag(L))) - noise)

    def _joint(self, D: Array, G: Array, b: Array) -> tuple[Array, Array]:
        """I + D G D and D b, D the deviations, in units of the noise."""
        D = D * np.exp(-self.log_noise)
        A = D[:, None] * G * D
        A.flat[:: len(A) + 1] += 1
        return A, D * b * np.exp(-self.log_noise)

    def _occurring(self) -> tuple[Array, Array, Array]:
        """Deviations, Gramian and data of what occurs."""
        key = self.occur.tobytes()
        if self._kept[0] != key:
            on = np.flatnonzero(self.occur)
            self._kept = key, on, self.G[np.ix_(on, on)], self.b[on]
        _, on, G, b = self._kept
        return self.expected[on], G, b

    def sums(self, sweeps: int) -> _Sums:
        p = len(self.b)
        first, second, alone, noise = np.zeros(p), np.zeros((p, p)), np.zeros((2, p)), 0.0
        telling = np.zeros((len(self.parts), 2))
        for _ in range(sweeps):
            self._move()
            T = self._visit(alone)
            on, D = self.occur, np.where(self.occur, self.expected, 0.0)
            mean = D * T[:-1, -1] - self.about
            first += mean
            second += np.outer(mean, mean) - D[:, None] * T[:-1, :-1] * D
            noise += np.exp(2 * self.log_noise)
            told = np.where(on, 1 + np.diag(T)[:-1], 0.0)
            telling[:, 0] += [np.sum(told[part]) for part in self.slices]
            telling[:, 1] += self.logs[:, 1]
        return _Sums(sweeps, first, second, alone, noise, telling)

    def at_an_end(self) -> bool:
        """Whether a field is larger than rounding allows."""
        return any(self.logs[i, 0] > self.ranges[i][0, 1] - 1 for i in self._smooth())

    def _move(self) -> None:
        """Metropolis steps of sizes, lengths and decays, and of the noise."""
        now = self._likely()
        for i in self._smooth() * MOVES:
            old, (low, high) = self.logs[i].copy(), self.ranges[i].T
            new = old + STEPS * np.exp(self.draw.standard_normal()) * self.draw.standard_normal(3)
            if np.all((low <= new) & (new <= high)):
                self._propose(i, new)
                then = self._likely()
                if np.log(self.draw.random()) < then - now:
                    now = then
                else:
                    self._propose(i, old)
        for _ in range(0 if self.noise_known else MOVES):
            old_noise = self.log_noise
            self.log_noise += 1.7 * self.draw.standard_normal() / np.sqrt(self.n)
            far = abs(self.log_noise - self.first_noise) > np.log(NOISES)
            then = -np.inf if far else self._likely()
            if np.log(self.draw.random()) < then - now:
                now = then
            else:
                self.log_noise = old_noise

    def _visit(self, alone: Array) -> Array:
        """Let every coefficient of a smooth field occur or not, as likely as that is.

        T is A bordered by c, swept at those that occur: -A^-1 of them and their mean, and what
        they leave of the others, so that what one more or one less is worth stands on T's diagonal
        and in its last column.
        """
        T = self._swept()
        for i in self._smooth():
            own = self.occur[self.slices[i]]
            count, of = int(own.sum()), len(own)
            chances = self.draw.logistic(size=of).tolist()
            for j, chance in zip(self.draw.permutation(of).tolist(), chances, strict=True):
                at, on = self.slices[i].start + j, bool(own[j])
                rest, r = abs(float(T[at, at])), float(T[at, -1])
                worth = (r**2 / rest + (1 if on else -1) * math.log(rest)) / 2
                worth += math.log((count - on + 1) / (of - count + on))
                mean, spread = (r, rest) if on else (r / rest, 1 / rest)
                mean, spread = self.expected[at] * mean, self.expected[at] ** 2 * spread
                share, off = 1 / (1 + math.exp(min(-worth, 700.0))), float(self.about[at])
                alone[0, at] += share * mean - off
                alone[1, at] += share * ((mean - off) ** 2 + spread) + (1 - share) * off**2
                if (chance < worth) != on:
                    _sweep(T, at)
                    own[j], count = not on, count + (-1 if on else 1)
        return T

    def _swept(self) -> Array:
        A, c = self._joint(self.expected, self.G, self.b)
        T = np.block([[A, c[:, None]], [c, np.zeros(1)]])
        on, off = np.append(self.occur, False), np.append(~self.occur, True)
        inverse = np.linalg.inv(np.linalg.cholesky(T[np.ix_(on, on)]))
        inverse = inverse.T @ inverse
        known = inverse @ T[np.ix_(on, off)]
        T[np.ix_(off, off)] -= T[np.ix_(off, on)] @ known
        T[np.ix_(on, off)], T[np.ix_(off, on)] = known, known.T
        T[np.ix_(on, on)] = -inverse
        return T


def _sweep(T: Array, k: int) -> None:
    """Take k in, or out if it is in."""
    pivot, column = T[k, k], T[:, k].copy()
    T -= np.outer(column, column / pivot)
    T[k] = T[:, k] = column / abs(pivot)
    T[k, k] = -1 / pivot
