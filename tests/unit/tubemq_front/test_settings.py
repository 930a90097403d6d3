"""What operators set outlives a restart, and garbage in its place does not keep a node from starting."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from penstock.model import Partition
from penstock.protocols.tubemq.wire.messages import RegisterRequestC2M
from penstock.protocols.tubemq.wire.rpc import CONSUMER_REGISTER
from penstock.records.scalar_codec import Stored, encode_batch
from penstock.store import open_store
from tests.unit.tubemq_front.kit import serving
from tests.unit.tubemq_front.web import call

RULES = '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'
REGISTER = RegisterRequestC2M(
    client_id="c", group_name="g", host_name="h", topic_list=["demo"], def_flow_check_id=-2, group_flow_check_id=-2
)


def test_settings_are_there_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        for life in range(3):
            store = open_store(f"file:{tmp_path}")
            async with serving(store=store) as kit:
                if life == 0:
                    await call(kit, "admin_set_def_flow_control_rule", flowCtrlInfo=RULES, statusId=1, createUser="me")
                    given = {"groupName": "g", "createUser": "me"}
                    await call(
                        kit,
                        "admin_set_group_flow_control_rule",
                        flowCtrlInfo=RULES,
                        statusId=1,
                        qryPriorityId=303,
                        **given,
                    )
                    topic = {"topicName": "demo", "createUser": "me"}
                    await call(kit, "admin_set_topic_authorize_control", isEnable="true", **topic)
                    await call(kit, "admin_add_authorized_consumergroup_info", groupName="g", **topic)
                    await call(kit, "admin_set_cluster_default_setting", maxMsgSizeInMB=2, createUser="me")
                    await call(
                        kit, "admin_set_topic_authorize_control", topicName="x", isEnable="true", createUser="me"
                    )
                    await call(
                        kit, "admin_set_topic_authorize_control", topicName="x", isEnable="false", createUser="me"
                    )
                settings = kit.front.shared.settings
                told = await kit.ask(CONSUMER_REGISTER, REGISTER)
                assert told.def_flow_control_info == told.group_flow_control_info == RULES
                assert told.qry_priority_id == 303
                assert settings.limits.max_message_bytes == 2 << 20
                assert (await kit.ask(CONSUMER_REGISTER, _of("other"))).err_code == 450
                assert settings.rules.empty
                assert list(settings.topics) == ["demo"]
                assert not settings.unsaved
            store.close()

    asyncio.run(main())


def _of(group: str) -> RegisterRequestC2M:
    return RegisterRequestC2M(client_id="c", group_name=group, host_name="h", topic_list=["demo"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"garbage", b"{}"),
        (None, b"{}"),
        (b"[1]", b"{}"),
        (b'["tubemq","nothing","x"]', b"{}"),
        (b'["tubemq","group","g"]', b'{"unknown":1}'),
        (b'["tubemq","group","g"]', b"[1]"),
        (b'["tubemq","group","g"]', b'{"allowed":5}'),
        (b'["tubemq","flow",""]', b'{"id":5,"text":"no rules"}'),
        (b'["tubemq","flow",""]', b"[" * 100_000),
    ],
)
def test_garbage_among_them_is_told_and_left_out(
    key: bytes | None, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = open_store("memory:")
        store.create_topic("__penstock_settings", 1)
        async with serving(store=store) as kit:
            record = Stored(0, 0, True, key, value, ())
            await kit.enode.append(Partition("__penstock_settings", 0), encode_batch([record]))
            with caplog.at_level(logging.WARNING):
                await kit.front.shared.settings_log.load()
            assert kit.front.shared.settings.flow.id == -2
            assert not kit.front.shared.settings.groups
        store.close()

    asyncio.run(main())
    assert "cannot be read" in caplog.text


def test_what_is_set_while_it_is_written_is_written_once_more() -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            reached, opened = asyncio.Event(), asyncio.Event()

            async def before(name: str) -> None:
                if name == "append":
                    reached.set()
                    await opened.wait()

            kit.enode.before = before
            setting = "admin_set_cluster_default_setting"
            first = asyncio.ensure_future(call(kit, setting, maxMsgSizeInMB=2, createUser="me"))
            await reached.wait()
            second = asyncio.ensure_future(call(kit, setting, maxMsgSizeInMB=3, createUser="me"))
            for _ in range(50):
                await asyncio.sleep(0)
            assert not second.done()
            opened.set()
            await asyncio.gather(first, second)
            assert not kit.front.shared.settings.unsaved
        async with serving(store=store) as again:
            assert again.front.shared.settings.limits.max_message_bytes == 3 << 20
        store.close()

    asyncio.run(main())
