"""Who takes part: by what is given, by JAX's variables, or by what started the processes."""

import http.server
import json
import os
import ssl
import subprocess
import threading

import pytest

from tessella.machine import clusters
from tessella.machine.clusters import Taking, taking_part


def slurm(nodes):
    return {
        "SLURM_JOB_ID": "4100", "SLURM_STEP_NODELIST": nodes, "SLURM_NTASKS": "8",
        "SLURM_PROCID": "3",
    }  # fmt: skip


OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
}
OPEN_MPI_5 = {
    "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}  # fmt: skip
MPICH = {"PMI_SIZE": "3", "PMI_RANK": "2", "MPI_LOCALNRANKS": "3"}
PLAIN = {
    "JAX_COORDINATOR_ADDRESS": "first:99", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1",
}  # fmt: skip
POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "JOB_COMPLETION_INDEX": "2"}
FEW = {"JAX_NUM_PROCESSES": "4"}
HERE = f"127.0.0.1:{os.getppid() % 4096 + 61440}"


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({}, ("", 1, 0)),
        (PLAIN, ("first:99", 2, 1)),
        (slurm("node001"), ("node001:61444", 8, 3)),
        (slurm("node001,host2"), ("node001:61444", 8, 3)),
        (slurm("node[001-0015],host2"), ("node001:61444", 8, 3)),
        (slurm("node[001,007-015],host2"), ("node001:61444", 8, 3)),
        (slurm("gpu-a1,gpu-a[2-3]"), ("gpu-a1:61444", 8, 3)),
        (slurm("gpu-[07-09]"), ("gpu-07:61444", 8, 3)),
        (slurm("n[3]"), ("n3:61444", 8, 3)),
        (OPEN_MPI, ("10.96.0.1:62624", 4, 2)),
        (OPEN_MPI | slurm("node[1-4]"), ("10.96.0.1:62624", 4, 2)),
        (OPEN_MPI_5, (HERE, 4, 2)),
        (MPICH, (HERE, 3, 2)),
        (MPICH | slurm("node1"), (HERE, 3, 2)),
        (slurm("node1") | {"PMI_SIZE": "8", "PMI_RANK": "3"}, ("node1:61444", 8, 3)),
        (slurm("node1") | PLAIN, ("first:99", 2, 1)),
        (slurm("node1") | {"JAX_COORDINATOR_ADDRESS": "other:5"}, ("other:5", 8, 3)),
        (slurm("node1") | {"JAX_COORDINATOR_PORT": "5000"}, ("node1:5000", 8, 3)),
        (slurm("node1") | {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, ("", 1, 0)),
        ({"JAX_NUM_PROCESSES": "1"}, ("", 1, 0)),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ("", 1, 0)),
    ],
)
def test_the_environment_is_read_as_jax_does(known, found):
    assert taking_part(Taking(), known) == found


def test_what_is_given_counts_most():
    assert taking_part(Taking("a:1", 3, 2), PLAIN) == ("a:1", 3, 2)
    assert taking_part(Taking(index=0), PLAIN) == ("first:99", 2, 0)
    assert taking_part(Taking(coordinator="a:1"), slurm("node1")) == ("a:1", 8, 3)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (PLAIN | {"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES must be a whole number"),
        (PLAIN | {"JAX_PROCESS_ID": "-1"}, "JAX_PROCESS_ID must be a whole number"),
        (FEW, "needs coordinator and index too, beside number=4"),
        ({"JAX_PROCESS_ID": "3"}, "needs coordinator and number too, beside index=3"),
        (MPICH | {"MPI_LOCALNRANKS": "1"}, "needs coordinator too, beside number=3, index=2"),
        (OPEN_MPI_5 | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "needs coordinator too"),
        (slurm("n1") | {"SLURM_NTASKS": "x"}, "SLURM_NTASKS must be a whole number"),
        (OPEN_MPI | {"OMPI_MCA_orte_hnp_uri": "1.0;usock"}, "no address in OMPI_MCA_orte_hnp_uri"),
    ],
)
def test_what_is_set_halfway_or_wrongly_is_named(known, said):
    """Processes that take themselves for alone would all do the same."""
    with pytest.raises(ValueError) as error:
        taking_part(Taking(), known)
    assert said in str(error.value)


# --- Kubernetes


@pytest.fixture
def pod(monkeypatch):
    def named(name):
        monkeypatch.setattr(clusters, "_pod_name", lambda: name)

    named("fit-2.fits.science.svc.cluster.local")
    return named


def test_pods_of_an_indexed_job_find_each_other_by_their_names(pod):
    first = "fit-0.fits.science.svc.cluster.local:61440"
    assert taking_part(Taking(), POD | FEW) == (first, 4, 2)
    pod("set-work-0-2.set")  # of a JobSet
    assert taking_part(Taking(), POD | FEW) == ("set-work-0-0.set:61440", 4, 2)


def test_pods_without_a_service_are_told_what_to_add(pod):
    pod("fit-2")
    with pytest.raises(ValueError, match="headless service that selects its pods"):
        taking_part(Taking(), POD | FEW)
    assert taking_part(Taking(coordinator="first:1"), POD | FEW) == ("first:1", 4, 2)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("account")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", "key.pem", "-out", "ca.crt"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    (folder / "token").write_text("secret\n")
    (folder / "namespace").write_text("science")
    return folder


@pytest.fixture
def kubernetes(certificate, monkeypatch):
    """A server that knows one job, for whoever has the token."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path == "/apis/batch/v1/namespaces/science/jobs/fit"
            allowed = self.headers["Authorization"] == "Bearer secret"
            self.send_response((200 if known else 404) if allowed else 403)
            self.end_headers()
            self.wfile.write(json.dumps({"spec": {"parallelism": 5}}).encode())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "ca.crt", certificate / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setattr(clusters, "ACCOUNT", certificate)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield POD | {"KUBERNETES_SERVICE_PORT": str(server.server_port)}
    server.shutdown()
    thread.join()
    server.server_close()


def test_kubernetes_is_asked_how_many_pods_there_are(pod, kubernetes):
    assert taking_part(Taking(), kubernetes)[1:] == (5, 2)


def test_what_kubernetes_does_not_tell_can_be_set(pod, kubernetes, certificate, monkeypatch):
    pod("other-2.fits")
    with pytest.raises(ValueError, match=r"'other' has \(.*404.*set JAX_NUM_PROCESSES in the job"):
        taking_part(Taking(), kubernetes)
    monkeypatch.setattr(clusters, "ACCOUNT", certificate / "nowhere")
    with pytest.raises(ValueError, match="let its service account `get` jobs"):
        taking_part(Taking(), kubernetes)
