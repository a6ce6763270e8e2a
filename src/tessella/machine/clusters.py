"""Who takes part, as the environment says: by JAX's own variables, or by what started us."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

Known = Mapping[str, str]

PORTS = 65535 - 2**12 + 1, 2**12
"""The first of the ports that clusters' jobs meet at, and how many there are."""

PLAIN = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes leaves what its pods may ask it with."""

WAIT = 20.0
"""Seconds in which Kubernetes has to answer."""


@dataclass(frozen=True)
class Taking:
    """Who takes part, as far as it is known: where process 0 waits for the others, how many there
    are, and which of them this is."""

    coordinator: str | None = None
    number: int | None = None
    index: int | None = None

    @property
    def missing(self) -> list[str]:
        return [name for name, value in vars(self).items() if value is None]

    def or_else(self, other: Taking) -> Taking:
        """What is not known here as it is known there."""
        return replace(self, **{name: getattr(other, name) for name in self.missing})


def taking_part(given: Taking, known: Known) -> tuple[str, int, int]:
    """What is given, or else JAX's variables say, or what started us; alone if that is nothing."""
    said = given.or_else(plain(known))
    if said.missing:
        started = next((own for find in CLUSTERS if (own := find(known, said))), Taking())
        said = said.or_else(started)
    if said == Taking() or said.number == 1:
        return "", 1, 0
    if said.coordinator is None or said.number is None or said.index is None:
        there = ", ".join(f"{k}={v!r}" for k, v in vars(said).items() if v is not None)
        raise ValueError(
            f"distributed() needs {' and '.join(said.missing)} too, beside {there}: give it all "
            f"three of coordinator='host:port', number and index in every process, or set "
            f"{', '.join(PLAIN)}"
        )
    return said.coordinator, said.number, said.index


def plain(known: Known) -> Taking:
    """By JAX's variables, each of which may be set alone."""
    address, number, index = (known.get(name) for name in PLAIN)
    return Taking(
        address,
        None if number is None else _whole(PLAIN[1], number),
        None if index is None else _whole(PLAIN[2], index),
    )


def _whole(name: str, value: str) -> int:
    if not re.fullmatch(r"\d+", value.strip()):
        raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")
    return int(value)


def _port(known: Known, job: int) -> int:
    """The same for all processes of a job, and most likely another one for other jobs."""
    first, several = PORTS
    return _whole(
        "JAX_COORDINATOR_PORT", known.get("JAX_COORDINATOR_PORT", f"{job % several + first}")
    )


def slurm(known: Known, said: Taking) -> Taking | None:
    """Steps that `srun` starts; process 0 is on the first node."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID")
    if any(name not in known for name in names):
        return None
    job, nodes, number, index = (known[name] for name in names)
    first = re.match(r"([^,\[]*)(?:\[([^,\-\]]*))?", nodes)
    assert first is not None
    address = f"{first[1]}{first[2] or ''}:{_port(known, _whole(names[0], job))}"
    return Taking(address, *map(_whole, names[2:], (number, index)))


def open_mpi(known: Known, said: Taking) -> Taking | None:
    """`mpirun` of Open MPI. Up to version 4 it says where it is, which is where process 0 is; from
    5 on that is known of processes of one machine only."""
    names = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
    if any(name not in known for name in names):
        return None
    number, index = (_whole(name, known[name]) for name in names)
    launcher = known.get("OMPI_MCA_orte_hnp_uri")
    if launcher is None:
        return Taking(_one_machine(known, "OMPI_COMM_WORLD_LOCAL_SIZE", number), number, index)
    found = re.search(r"tcp://(.+?)[,:]|tcp6://\[(.+?)[,\]]", launcher)
    if found is None:
        raise ValueError(f"no address in OMPI_MCA_orte_hnp_uri={launcher!r}: name a coordinator")
    job = _whole("the job's number in OMPI_MCA_orte_hnp_uri", launcher.split(".")[0])
    return Taking(f"{found[1] or found[2]}:{_port(known, job // 2**12)}", number, index)


def hydra(known: Known, said: Taking) -> Taking | None:
    """`mpirun` of MPICH and of Intel MPI, which say nothing of where process 0 is."""
    names = ("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS")
    if any(name not in known for name in names):
        return None
    number, index = (_whole(name, known[name]) for name in names[:2])
    return Taking(_one_machine(known, names[2], number), number, index)


def _one_machine(known: Known, here: str, number: int) -> str | None:
    """Where processes meet that are all on this machine, and have the same parent."""
    if known.get(here) != str(number):
        return None
    return f"127.0.0.1:{_port(known, os.getppid())}"


def kubernetes(known: Known, said: Taking) -> Taking | None:
    """Pods of a job with `completionMode: Indexed`, alone or in a JobSet. Their names end with
    their indices, and a headless service, the job's `subdomain`, makes them known to each other."""
    if "KUBERNETES_SERVICE_HOST" not in known or "JOB_COMPLETION_INDEX" not in known:
        return None
    index = _whole("JOB_COMPLETION_INDEX", known["JOB_COMPLETION_INDEX"])
    host = _pod_name()
    named = re.fullmatch(rf"(.+)-{index}(\..+)?", host)
    job = host.split(".")[0] if named is None else named[1]
    number = _parallelism(known, job) if said.number is None else said.number
    if said.coordinator is not None or number == 1:
        return Taking(None, number, index)
    if named is None or named[2] is None:
        raise ValueError(
            f"the pods of this job have no names by which they find each other ({host!r} is not "
            f"JOB-{index}.SERVICE): give the job `subdomain: SERVICE`, the name of a headless "
            f"service that selects its pods, or set JAX_COORDINATOR_ADDRESS in all of them"
        )
    return Taking(f"{job}-0{named[2]}:{_port(known, 0)}", number, index)


def _pod_name() -> str:
    return socket.getfqdn()


def _parallelism(known: Known, job: str) -> int:
    """How many pods of a job there are at a time, which Kubernetes knows."""
    try:
        token, namespace = ((ACCOUNT / name).read_text().strip() for name in ("token", "namespace"))
        certificate = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        host, port = known["KUBERNETES_SERVICE_HOST"], known.get("KUBERNETES_SERVICE_PORT", "443")
        host = f"[{host}]" if ":" in host else host
        asked = urllib.request.Request(
            f"https://{host}:{port}/apis/batch/v1/namespaces/{namespace}/jobs/{job}",
            headers={"Authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(asked, timeout=WAIT, context=certificate) as answer:
            return int(json.load(answer)["spec"]["parallelism"])
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"Kubernetes does not tell how many pods job {job!r} has ({error}): set "
            f"{PLAIN[1]} in the job's `env`, or let its service account `get` jobs"
        ) from None


CLUSTERS: tuple[Callable[[Known, Taking], Taking | None], ...] = (
    open_mpi, hydra, slurm, kubernetes,
)  # fmt: skip
"""Whatever may have started us, in the order in which it is asked: MPI's launchers first, which may
themselves be started by others. Each is told what is known without it."""
