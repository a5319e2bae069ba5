import socket
import threading

import httpx
import pytest
from starlette.applications import Starlette

from processors.contracts.errors import ConfigError
from sinks.web.server import Server


def test_it_answers_on_a_free_port_and_states_which(app: Starlette) -> None:
    with Server(app, "127.0.0.1", 0) as server:
        response = httpx.get(f"{server.url}/healthz")
    assert response.json() == {"status": "alive"}
    assert "server" not in response.headers


def test_the_port_is_free_again_after_the_stop(app: Starlette) -> None:
    with Server(app, "127.0.0.1", 0) as server:
        httpx.get(f"{server.url}/healthz")
    with Server(app, "127.0.0.1", server.port) as again:
        assert httpx.get(f"{again.url}/healthz").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{again.url}/healthz")


def test_no_thread_is_left_behind(app: Starlette) -> None:
    before = set(threading.enumerate())
    with Server(app, "127.0.0.1", 0) as server:
        assert server.port > 0
        server.stop()
        server.stop()
    assert set(threading.enumerate()) <= before  # one of an earlier test may end meanwhile


def test_an_open_connection_does_not_hold_up_the_stop(app: Starlette) -> None:
    with Server(app, "127.0.0.1", 0) as server:
        client = socket.create_connection(("127.0.0.1", server.port))
        httpx.get(f"{server.url}/healthz")
    client.close()
    assert not any(thread.name == "http" for thread in threading.enumerate())


def test_a_port_that_is_taken_is_named_at_the_start(app: Starlette) -> None:
    with (
        Server(app, "127.0.0.1", 0) as server,
        pytest.raises(
            ConfigError,
            match=rf"The HTTP address 127.0.0.1:{server.port} cannot be used \(Address already in use\). Choose another port: http.port",
        ),
    ):
        Server(app, "127.0.0.1", server.port)


def test_a_host_that_is_not_of_this_machine_is_named_at_the_start(app: Starlette) -> None:
    with pytest.raises(ConfigError, match=r"The HTTP address 192\.0\.2\.1:0 cannot be used"):
        Server(app, "192.0.2.1", 0)


def test_it_serves_in_a_thread_that_does_not_keep_the_process_alive(app: Starlette) -> None:
    with Server(app, "127.0.0.1", 0):
        assert [thread.daemon for thread in threading.enumerate() if thread.name == "http"] == [True]


def test_garbage_on_the_port_does_no_harm(app: Starlette) -> None:
    with Server(app, "127.0.0.1", 0) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"\x00\xff" * 1000 + b"\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 400")
        assert httpx.get(f"{server.url}/healthz").status_code == 200
