"""Whoever connects and asks nothing, or asks slowly, keeps nobody else from the page, and nothing keeps probes out."""

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from starlette.applications import Starlette

from agent.app import compose
from processors.contracts.outputs import Prediction
from sinks.web.server import ADDRESS, ALL, PROBES, Limits, Server, create_app
from tests.kit.service import FixedService

SOON_S = 60.0


@contextmanager
def idle(server: Server, count: int, addresses: int = 1) -> Iterator[None]:
    """Connect so often from so many addresses of this machine, and say nothing."""
    with ExitStack() as stack:
        for number in range(count):
            source = (f"127.0.0.{1 + number % addresses}", 0)
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), SOON_S, source_address=source))
        yield


@pytest.mark.parametrize(("addresses", "bound"), [(1, ADDRESS), (4, ALL)])
def test_idle_connections_block_neither_the_page_nor_probes(app: Starlette, addresses: int, bound: str) -> None:
    reached: list[str] = []
    with Server(app, "127.0.0.1", 0, reached=reached.append) as server, idle(server, 260, addresses):
        for path in ("/", *PROBES):
            assert httpx.get(f"{server.url}{path}", timeout=SOON_S).status_code == 200, path
    assert set(reached) == {bound}


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_a_head_that_is_not_complete_in_time_ends_the_connection(app: Starlette, sent: bytes) -> None:
    with (
        Server(app, "127.0.0.1", 0, limits=Limits(head_timeout_s=0.05)) as server,
        socket.create_connection(("127.0.0.1", server.port), SOON_S) as client,
    ):
        client.sendall(sent)
        assert client.recv(100) == b""


def test_a_second_head_that_is_not_complete_in_time_ends_the_connection_too(app: Starlette) -> None:
    with (
        Server(app, "127.0.0.1", 0, limits=Limits(head_timeout_s=0.05)) as server,
        socket.create_connection(("127.0.0.1", server.port), SOON_S) as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(10_000).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET /healthz HT")
        while client.recv(10_000):
            pass


class Slow(FixedService):
    """Answers nothing of applications before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may = threading.Semaphore(0), threading.Event()

    def predictions(self) -> Sequence[Prediction]:
        self.begun.release()
        self.may.wait(SOON_S)
        return super().predictions()


@contextmanager
def busy(server: Server, service: Slow, count: int, begun: int) -> Iterator[None]:
    """Ask for the page so often that threads or connections are used up, until the end of the block."""
    with ThreadPoolExecutor(count) as pool:
        answers = [pool.submit(httpx.get, f"{server.url}/api/v1/applications", timeout=SOON_S) for _ in range(count)]
        try:
            for _ in range(begun):
                assert service.begun.acquire(timeout=SOON_S)
            yield
        finally:
            service.may.set()
        assert {answer.result().status_code for answer in answers} == {200}


def test_probes_need_none_of_the_threads_that_make_pages() -> None:
    service = Slow()
    with Server(create_app(service, compose.metrics()), "127.0.0.1", 0) as server, busy(server, service, 45, begun=40):
        for path in PROBES:
            assert httpx.get(f"{server.url}{path}", timeout=SOON_S).status_code == 200, path


def test_where_all_connections_are_busy_probes_have_some_of_their_own() -> None:
    service, limits = Slow(), Limits(connections_max=3, probes_max=2)
    with (
        Server(create_app(service, compose.metrics()), "127.0.0.1", 0, limits=limits) as server,
        busy(server, service, 3, begun=3),
    ):
        for path in PROBES:
            assert httpx.get(f"{server.url}{path}", timeout=SOON_S).status_code == 200, path
        assert httpx.get(f"{server.url}/", timeout=SOON_S).status_code == 503
