"""What a TubeMQ client is refused stands in the node's log."""

from __future__ import annotations

import pytest

from penstock.protocols.tubemq.wire import messages
from penstock.protocols.tubemq.wire.rpc import COMMIT_OFFSET, SEND_MESSAGE
from tests.unit.tubemq_front.kit import Kit, run


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "penstock.refused"]


def test_who_asked_for_what_and_why_it_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def test(kit: Kit) -> None:
        said = messages.SendMessageRequestP2B(
            client_id="billing", topic_name="none", partition_id=0, data=b"x", flag=0, check_sum=-1, sent_addr=1
        )
        answer = await kit.ask(SEND_MESSAGE, said)
        asked = messages.CommitOffsetRequestC2B(
            client_id="nobody", topic_name="none", partition_id=0, group_name="readers"
        )
        other = await kit.ask(COMMIT_OFFSET, asked)
        first, second = lines(caplog)
        assert first.startswith("tubemq: send_message of client billing at 127.0.0.1:50000 (topic none) was answered ")
        assert f"({answer.err_code}): {answer.err_msg}; " in first
        assert second.startswith(
            "tubemq: commit_offset of client nobody at 127.0.0.1:50000 (topic none, group readers) was answered "
        )
        assert f"({other.err_code}): {other.err_msg}; " in second
        await kit.ask(SEND_MESSAGE, said)
        assert len(lines(caplog)) == 2

    run(test)
