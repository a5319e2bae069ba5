"""One request to an application inside this process, without a port."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
from starlette.types import ASGIApp


def get(
    app: ASGIApp,
    url: str,
    method: str = "GET",
    headers: Sequence[tuple[str, str]] = (),
    address: str = "127.0.0.1",
) -> httpx.Response:
    """Ask with these headers, from an address."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=(address, 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return await client.request(
                method, url, headers=[(name.encode(), value.encode()) for name, value in headers]
            )

    return asyncio.run(ask())


def get_json(app: ASGIApp, url: str) -> Any:
    response = get(app, url)
    assert response.status_code == 200, response.text
    return response.json()
