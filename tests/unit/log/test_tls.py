"""What a person reads if TLS towards the broker fails, with each client: of a server whose certificate is not good."""

import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from agent.log.kafka.client import ClientName, KafkaLogSettings, KafkaSecurity, refusal

Serve = Callable[[str], int]
CERTIFICATES = {  # by what is wrong: the name and the last day of validity
    "expired": ("IP:127.0.0.1", "20200102000000Z"),
    "other host": ("DNS:kafka.example", "20990101000000Z"),
    "unknown CA": ("IP:127.0.0.1", "20990101000000Z"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA, another CA, and a certificate of each kind."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = tmp_path_factory.mktemp("tls")
    for name in ("ca", "other"):
        _openssl(
            made,
            f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.pem",
        )
    for kind, (name, end) in CERTIFICATES.items():
        file, issuer = kind.replace(" ", "-"), "other" if kind == "unknown CA" else "ca"
        (made / "ca.cnf").write_text(
            f"[ca]\ndefault_ca = d\n[d]\nnew_certs_dir = .\ndatabase = index\nserial = serial\ndefault_md = sha256\npolicy = p\n"
            f"unique_subject = no\nx509_extensions = x\n[p]\ncommonName = supplied\n[x]\nsubjectAltName = {name}\n"
        )
        (made / "index").write_text("")
        (made / "serial").write_text("01")
        _openssl(
            made,
            f"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=broker -keyout {file}.key -out {file}.csr",
        )
        _openssl(
            made,
            f"ca -batch -config ca.cnf -cert {issuer}.pem -keyfile {issuer}.key -startdate 20200101000000Z -enddate {end} -in {file}.csr -out {file}.pem -notext",
        )
    return made


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Listen with a certificate of a kind, and return the port."""
    listeners: list[socket.socket] = []

    def start(kind: str) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{kind.replace(' ', '-')}.pem", folder / f"{kind.replace(' ', '-')}.key")
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with suppress(OSError), plain:
                        context.wrap_socket(plain, server_side=True).close()

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("expired", "certificate has expired"),
        ("other host", "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        ("unknown CA", "unable to get local issuer certificate, so the CA file of the configuration has not signed it"),
    ],
)
def test_the_certificate_of_a_broker_is_refused_with_the_reason(
    serve: Serve, folder: Path, kind: str, why: str
) -> None:
    address = f"127.0.0.1:{serve(kind)}"
    settings = KafkaLogSettings(address, security=KafkaSecurity("SSL", ca_file=str(folder / "ca.pem")))
    assert refusal(settings) == f"The certificate of {address} is refused: {why}."


def test_a_listener_without_tls_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_plainly, args=(listener,), daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = KafkaLogSettings(address, security=KafkaSecurity("SSL", ca_file=str(folder / "ca.pem")))
        assert refusal(settings) == f"TLS with {address} fails: wrong version number."


@pytest.mark.parametrize("client", ["kafka-python", pytest.param("confluent", marks=pytest.mark.thorough)])
def test_topics_prints_one_line_if_the_certificate_of_the_broker_has_expired(
    serve: Serve, folder: Path, tmp_path: Path, client: ClientName
) -> None:
    address, config = f"127.0.0.1:{serve('expired')}", tmp_path / "agent.yaml"
    security = {"protocol": "tls", "ca_file": str(folder / "ca.pem")}
    kafka = {"bootstrap": address, "client": client, "security": security}
    config.write_text(yaml.safe_dump({"kafka": kafka, "sources": [{"topics": ["jobs"]}]}))
    command = [sys.executable, "-P", "-m", "agent.cli", "topics", "-c", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    reason = f"The certificate of {address} is refused: certificate has expired."
    assert done.stderr.startswith(f"scalewatch: No Kafka broker could be reached at {address} (SSL) within 10 s:")
    assert done.stderr.endswith(f" {reason}\n")
    assert done.stderr.count("\n") == 1


def answer_plainly(listener: socket.socket) -> None:
    with listener.accept()[0] as plain:
        plain.sendall(b"plain text\r\n")


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
