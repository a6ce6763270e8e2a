"""The numbers that steer `tol`, what they mean, and what chose them.

`python -m benchmarks tolerance` and `tolerance_unseen` run the gallery and problems nobody tuned
on to several tolerances and compare true errors with estimates; `refinement` compares local with
global refinement. A number that is not named below was chosen by reason, not by a run.
"""

from __future__ import annotations

# --- points that no system has seen (held_out)

INTERIOR, PER_FACE, FACES = 1_024, 256, 8
"""Held-out points inside, and on each part of a condition, if these are not more than so many."""

NARROW = 8
"""So many times more on the boundary if a function chooses among them."""

POOL = {1: 1 << 15, 2: 1 << 16, 3: 1 << 17}
"""Points at which data are looked at for peaks, by dimension."""

EDGES = 1_024
"""Random places on edges of boxes in many dimensions."""

IN_A_SLAB = 0.25
"""Part of these that is enough for one of many slabs of time."""

IN_A_CELL = 8
"""At least so many at the same places of all cells of a slab."""

CONTINUED = 64
"""So many times fewer where the data are the end of a slab of time, which features resolve."""

CORNERED, BESIDE_CORNERS = 256, 0.99
"""Cells whose corners are looked at for the largest error, and where, in parts of half a cell."""

HELD, NARROW_PART = 0.9, 0.02
"""Data are peaked if so much of their square is held by so small a part of the points."""

# --- how wrong a solution is (estimate)

ROUNDING = 1e-14
"""No estimate is smaller."""

DOUBT = 100.0
"""Ratio of true and estimated error from which one of them is doubted."""

ASTRAY = 0.1
"""A march this far from another one no longer shows how errors grow."""

MISSED, SIGNIFICANT = 0.3, 1e-3
"""A solution that misses this part of some data is none, unless they are smaller than this part of
what the operator makes of a function as large as the solution and as wide as the domain."""

MAGNIFIED = 20.0
"""Solutions that are farther apart than so many times what they miss explains show a problem that
magnifies it. (In `tolerance` it is 8 at most of an accepted one, near eigenvalues 20 to 1e8.)"""

NOUGHT, AGREED = 3e-11, 0.3
"""An unknown of a system is zero if it is smaller than this part of what would balance the data and
the other unknowns, and two solutions differ by this part of it and more. Its errors are then parts
of what would balance."""

FLAT = 0.01
"""Least spread inside, in parts of the range of a solution up to its boundary: thin layers may be
all there is to it, and random points seldom meet them."""

# --- which cells to split (marking; chosen by `refinement`)

POINTS = {1: 12, 2: 24, 3: 32}
"""Points in a cell, and on its face, by dimension."""

BULK = 0.95
"""The cells that are split hold this part of the squared error."""

FEW_CELLS = 0.5
"""Of all cells; if more hold the bulk, all are split."""

LOOKED_AT = 128
"""Cells whose expansions are looked at for axes that need finer ones."""

ALIKE_AXES = 0.2
"""Axes are split together if their tails are at least this part of the longest."""

# --- how fine data and operator are (scales)

NODES, LINES = 96, 6
"""Gauss points on a line through the domain, and lines along every axis."""

VISIBLE = 1e-2
"""What a polynomial leaves of a function of unit size, for its degree to count as enough."""

THIN, CALM = 100, 20
"""Degrees from which layers are thin, and degrees that are enough between such layers."""

TURNING = 0.05
"""Exponents whose imaginary part is at least this part of the real one are oscillations."""

BESIDE, VANISHED = 1e-6, 1e-13
"""How far beside an end its coefficients are taken, in parts of the side, and which of them count
as zero, in parts of the largest."""

EXPONENTS = 32
"""Points at which exponents are looked at."""

# --- the discretisations that are tried (plan; chosen by `tolerance`)

FEATURES = {
    1: (8, 12, 16, 20, 24, 32),
    2: (40, 64, 80, 100, 125, 160, 200, 250, 300),
    3: (60, 100, 130, 160, 200, 250, 300, 380, 480, 600),
}
"""Features per cell by dimension: few numbers, so that compiled programs are found again."""

RICHEST = {1: 32, 2: 200, 3: 250}
"""Features from which on slabs of time have smaller cells instead of more features."""

START = {1: 1, 2: 2, 3: 1}
"""The rung of that ladder on which a refinement begins."""

FEWEST, FEWEST_ON_SHAPES = {1: 4, 2: 2, 3: 2}, {1: 4, 2: 4, 3: 2}
"""Cells along the longest axis on which a refinement begins, by dimension."""

BEGINNINGS = 2
"""Times that a first plan is made finer where Newton's method cannot do with it."""

STRIDE = 2
"""Rungs climbed at once, unless one is predicted to be enough."""

FINER = {1: 2.0, 2: 2.0, 3: 1.5}
"""Factor between two numbers of cells, by the number of axes that are split."""

FILLED = 0.7
"""Part of the degree of a cell's features that the first plan counts on."""

THINNER = 4
"""Slabs are halved towards layers that are thinner than they are by this factor."""

CROWD = {1: 256, 2: 128, 3: 48}
"""The first plan has about so many cells at most, by dimension."""

BLENDED_SCALE = 1.5
"""Bandwidth of overlapping subdomains' features where `tol` takes them."""

# --- polynomials in many dimensions (terms)

FEWEST_TERMS, MORE_TERMS = 64, 2.0
"""Polynomials in the first of them, at least, and the factor between two steps."""

FALL = 0.1
"""Part that a polynomial is hoped to contribute of what those before it do."""

CERTAIN = 10.0
"""Polynomials that contribute so many times the error are kept."""

UNTRIED = 0.1
"""Part of a set that is kept for the lowest degrees not yet tried."""

RESIDUAL = 0.1
"""An estimate is no smaller than this part of what is missed of the data at other points."""

# --- the way to a tolerance (tolerance; chosen by `tolerance`)

SMALLEST_TOLERANCE = 1e-13
"""Below this double precision leaves nothing to refine."""

NONE, FAR = 0.05, 1e4
"""Two solutions further apart than this, or with residuals further apart than this factor: the
worse one is none, or too bad to say how good the better one is. Other bandwidths say more."""

ALIKE = 3.0
"""Solutions may miss the same things. Other bandwidths on the same cells of different size lower an
estimate by this factor at most, other steps by this factor more than the residual."""

WORTH = 4.0
"""Features that lower the residual by less than this were not what was missing."""

STALLED, TIMES = 1.3, 3
"""The refinement ends after so many steps in a row that lower the residual by less than this."""

HOPELESS = 4.0
"""A step that is predicted to take this many times the time that is left is not begun: predictions
are off by a factor of two and more."""

CONTRADICTION, LATELY = 1e-3, 4
"""If more is asked for than determines a solution, data of which this part is missed, and less than
twice as much so many steps before, contradict each other."""

BANDWIDTHS = (0.7, 1.0, 1.4)
"""Multiples of the default bandwidth that are tried once."""

GPU_WORK = 3e10
"""From this on a step is solved on a GPU, if there is one: some 15 s on two cores. Every step has
shapes of its own, for which a GPU's programs take that long to compile."""
