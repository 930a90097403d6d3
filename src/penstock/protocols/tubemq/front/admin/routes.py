"""Which administrative methods there are, and by whom they are served: the only place that says so.

Source: TubeMQ 2.x, HTTP interfaces of master and broker. A failure is an answer with ``result`` false and the code.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.errors import PenstockError
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admin.http import HttpRefused, HttpRequest, json_answer, text_answer
from penstock.protocols.tubemq.front.call import Shared
from penstock.protocols.tubemq.front.faults import Refused, refusal
from penstock.seams.framing import Buffer, Buffers

__all__ = ["ROUTES", "Admin", "AdminCall", "Route"]


@dataclass(frozen=True, slots=True)
class AdminCall:
    """One call: the front's shared parts and the parameters."""

    shared: Shared
    parameters: Mapping[str, str]


AdminHandler = Callable[[AdminCall], Awaitable[Mapping[str, Any]]]
"""Returns the answer without ``result``, ``errCode`` and ``errMsg`` where these say that all is well."""


class Route(NamedTuple):
    """``handler`` is "module.function" in this folder; ``token``: it changes something and needs the token."""

    handler: str
    token: bool = False


ROUTES: Final[Mapping[str, Route]] = {
    "admin_get_methods": Route("status.methods"),
}


class Admin:
    """Serves one HTTP request after the other, whoever it comes from."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def serve(self, data: Buffer) -> Buffers:
        """The whole answer to a whole request."""
        try:
            request = HttpRequest.parse(data)
        except HttpRefused as error:
            return [text_answer(error.status, f"{error.message}\n")]
        answer = json_answer(await self._call(request.parameters))
        return [answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if request.method == "HEAD" else answer]

    async def _call(self, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            route = ROUTES.get(parameters.get("method", ""))
            if route is None:
                raise Refused(Code.BAD_REQUEST, "Please take with method parameter! admin_get_methods lists them")
            if route.token and parameters.get("confModAuthToken", "") != self._shared.options.admin_token:
                raise Refused(Code.BAD_REQUEST, "Illegal access, unauthorized request: confModAuthToken is not right!")
            found = await _handler(route.handler)(AdminCall(self._shared, parameters))
        except PenstockError as error:
            refused = refusal(error)
            return {"result": False, "errCode": refused.code, "errMsg": refused.message}
        return {"result": True, "errCode": 0, "errMsg": "OK", **found}


@functools.cache
def _handler(name: str) -> AdminHandler:
    module, function = name.split(".")
    found: AdminHandler = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return found
