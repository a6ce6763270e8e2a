"""All peers, in the order they are run and listed."""

from __future__ import annotations

from benchmarks.peers.deep_xde import DEEPXDE
from benchmarks.peers.jax_hps import JAXHPS
from benchmarks.peers.ng_solve import NGSOLVE
from benchmarks.peers.ours import IN_SLABS, OVERLAPPING, SIDE_BY_SIDE, TO_TOLERANCE
from benchmarks.peers.peer import Peer
from benchmarks.peers.recipe import RECIPE
from benchmarks.peers.scikit_fem import SCIKIT_FEM
from benchmarks.peers.scipy_ode import DOP853
from benchmarks.peers.torch_features import FASTLSQ, PYRFM_PEER

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        SIDE_BY_SIDE,
        IN_SLABS,
        TO_TOLERANCE,
        OVERLAPPING,
        RECIPE,
        DOP853,
        SCIKIT_FEM,
        NGSOLVE,
        JAXHPS,
        FASTLSQ,
        PYRFM_PEER,
        DEEPXDE,
    )
}
