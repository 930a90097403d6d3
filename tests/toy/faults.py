"""How the toy says no, for fault injection."""

from __future__ import annotations

from penstock.errors import PenstockError, UsageError
from penstock.interfaces import Frame, Pieces
from penstock.interfaces.front import Handle
from tests.toy.framing import ANSWER, pack, unpack

VERBS = {"bounds", "commit", "committed", "create", "delete", "grow", "pull", "routes", "write"}


class ToyWording:
    def check(self, api: str, error: str = "") -> None:
        if api and api not in VERBS:
            raise UsageError(f"the toy has no verb {api!r}")

    def api_of(self, frame: Frame) -> str:
        try:
            return str(unpack(frame)[0].get("do", ""))
        except PenstockError:
            return ""

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        return pack(ANSWER, frame.correlation, {"error": error, "text": "so it was wanted", "retriable": False})

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        return pack(ANSWER, frame.correlation, {"error": error, "text": "so it was wanted", "retriable": False})
