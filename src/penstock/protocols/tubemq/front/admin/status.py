"""What there is: methods, brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.protocols.tubemq.front.admin.routes import ROUTES, AdminCall

__all__ = ["methods"]


async def methods(call: AdminCall) -> Mapping[str, Any]:
    """Serve admin_get_methods."""
    del call
    data = [{"id": row, "method": name} for row, name in enumerate(sorted(ROUTES), 1)]
    return {"data": data, "count": len(data)}
