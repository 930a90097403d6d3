"""What is asked of a request before anything else: a signature, where clients have accounts, and not to be too much.

A signature is over everything that a client says, so that it holds here only, where nothing was changed yet; what goes
on to brokers is signed anew (``enode/credentials``). Source: Apache RocketMQ 4.9, ``PlainPermissionManager``, whose
words these are; the code is the Proxy's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.flow import Flow
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.protocols.rocketmq.rpc import UNSIGNED_KEY
from penstock.protocols.rocketmq.signing import ACCESS_KEY, is_signed

__all__ = ["Admission", "admission_of"]

_log = logging.getLogger("penstock.node")

_QUERY_MESSAGE: Final = 12
_TELL_EVERY: Final = 100


class Admission:
    """Of one front; ``accounts`` are access keys and their secrets, none: nobody has to sign."""

    def __init__(self, accounts: Mapping[str, str], flow: Flow) -> None:
        self._accounts = accounts
        self._flow = flow
        self._refused = 0

    def check(self, asked: RemotingCommand, now: float) -> None:
        """Raises Refused."""
        if self._accounts:
            self._signed(asked)
        words = self._flow.refuses(asked.code, len(asked.body), now)
        if words is not None:
            if self._refused % _TELL_EVERY == 0:
                _log.warning("request %d of a RocketMQ client is one too many: %s", asked.code, words)
            self._refused += 1
            raise Refused(Code.SYSTEM_BUSY, words)

    def _signed(self, asked: RemotingCommand) -> None:
        key = asked.fields.get(ACCESS_KEY)
        if not key:
            raise Refused(Code.NO_PERMISSION, "No accessKey is configured")
        secret = self._accounts.get(key)
        if secret is None:
            raise Refused(Code.NO_PERMISSION, f"No acl config for {key[:100]}")
        if is_signed(secret, asked.fields, asked.body):
            return
        # Clients differ in whether this field of theirs is signed.
        if asked.code == _QUERY_MESSAGE and is_signed(secret, asked.fields, asked.body, without=(UNSIGNED_KEY,)):
            return
        raise Refused(Code.NO_PERMISSION, f"Check signature failed for accessKey={key[:100]}")


def admission_of(options: RocketFrontOptions) -> Admission | None:
    """What an operator chose; None where everything is let in."""
    if not (options.accounts or options.flow_requests or options.flow_kilobytes):
        return None
    return Admission(options.accounts, Flow(options.flow_requests, options.flow_kilobytes))
