"""One reader of one partition, asking whatever it likes: it gets what the protocol's rules say, stated once more here.

C is the group's offset, F the end of what was delivered and not confirmed. Automatic reading starts at C, after C := F
if the batch was consumed; manual reading starts at F and leaves C alone; a commit sets C := F or forgets F.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.model import Partition
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from penstock.protocols.tubemq.wire.messages import CommitOffsetRequestC2B, GetMessageResponseB2C
from penstock.protocols.tubemq.wire.rpc import COMMIT_OFFSET, REGISTER_PARTITION
from tests.unit.tubemq_front.kit import Kit, bodies, booking, serving

T = TypeVar("T")
AT_ONCE = 3
DEMO = Partition("demo", 0)


class Reader(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.serving: AbstractAsyncContextManager[Kit] = serving(TubeFrontOptions(transfer_records=AT_ONCE))
        self.kit: Kit = self.run(self.serving.__aenter__())
        self.written: list[bytes] = []
        self.start = 0
        self.committed = 0
        self.flight: int | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.serving.__aexit__(None, None, None))
        self.runner.close()

    @initialize()
    def book(self) -> None:
        self.run(self.kit.book())

    @rule(count=st.integers(1, 4))
    def write(self, count: int) -> None:
        new = [b"%d" % (len(self.written) + number) for number in range(count)]
        assert self.run(self.kit.put(*new))[0] == 28 * len(self.written)
        self.written += new

    @rule(offset=st.none() | st.integers(0, 20), status=st.sampled_from([0, 0, 1, 2]))
    def register(self, offset: int | None, status: int) -> None:
        more: dict[str, Any] = {} if offset is None else {"curr_offset": 28 * offset + 3}
        answer = self.run(self.kit.book(read_status=status, **more))
        end = len(self.written)
        if status == 2:
            self.committed = end
        elif offset is not None:
            self.committed = min(max(offset, self.start), end)
        self.flight = None
        assert answer.curr_offset == 28 * self.committed
        assert answer.max_offset == 28 * end

    @rule(consumed=st.booleans())
    def get(self, consumed: bool) -> None:
        answer = self.run(self.kit.get(last_pack_consumed=consumed))
        if consumed and self.flight is not None:
            self.committed = self.flight
        self.flight = None
        self.expect(answer, self.committed)

    @rule(consumed=st.booleans())
    def get_manually(self, consumed: bool) -> None:
        answer = self.run(self.kit.get(last_pack_consumed=consumed, manual_commit_offset=True))
        self.expect(answer, self.committed if self.flight is None else self.flight)

    def expect(self, answer: GetMessageResponseB2C, at: int) -> None:
        end = len(self.written)
        if at >= end:
            assert (answer.success, answer.err_code, answer.curr_offset) == (False, 404, -1)
            return
        at = max(at, self.start)
        assert answer.success
        assert answer.curr_offset == 28 * at
        assert bodies(answer) == self.written[at : at + AT_ONCE]
        assert [message.message_id for message in answer.messages] == list(range(at, min(end, at + AT_ONCE)))
        self.flight = min(end, at + AT_ONCE)

    @rule(consumed=st.sampled_from([None, True, False]))
    def commit(self, consumed: bool | None) -> None:
        request = CommitOffsetRequestC2B(
            client_id="c", topic_name="demo", partition_id=0, group_name="g", last_pack_consumed=consumed
        )
        answer = self.run(self.kit.ask(COMMIT_OFFSET, request))
        if consumed is not False and self.flight is not None:
            self.committed = self.flight
        self.flight = None
        assert answer.curr_offset == 28 * self.committed

    @rule(status=st.sampled_from([0, 1]))
    def leave_and_come_back(self, status: int) -> None:
        assert self.run(self.kit.ask(REGISTER_PARTITION, booking("c", "g", op_type=32, read_status=status))).success
        if status == 0 and self.flight is not None:
            self.committed = self.flight
        self.flight = None
        assert self.run(self.kit.book()).curr_offset == 28 * self.committed

    @rule(share=st.integers(0, 3))
    def delete(self, share: int) -> None:
        """Retention takes the oldest away."""
        self.start = self.run(
            self.kit.enode.delete_records(DEMO, self.start + (len(self.written) - self.start) * share // 4)
        )

    @invariant()
    def the_groups_offset_is_kept_for_everybody_to_see(self) -> None:
        known = self.run(self.kit.offsets.committed("g")).get(DEMO)
        assert (0 if known is None else known.offset) == self.committed


Reader.TestCase.settings = settings(stateful_step_count=25)
TestReader = Reader.TestCase
