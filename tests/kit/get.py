"""One request to an application inside this process, without a port."""

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


def get(app: ASGIApp, url: str, method: str = "GET") -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return await client.request(method, url)

    return asyncio.run(ask())


def get_json(app: ASGIApp, url: str) -> Any:
    response = get(app, url)
    assert response.status_code == 200, response.text
    return response.json()
