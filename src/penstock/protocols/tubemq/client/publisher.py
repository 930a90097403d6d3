"""Publisher: this client as a producer at the master: registering, heartbeats, and what they tell.

Topics, brokers and limits come with the heartbeats' answers. The heartbeat's driver is above (``beat`` is called every
``producer_heartbeat_ms``); a heartbeat that the master does not know us by (411) registers again and is sent once more.
Source: Apache InLong TubeMQ 2.x, ``SimpleMessageProducer`` and methods 1-3.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.errors import PenstockError, ServerError
from penstock.interfaces.channel import Channel
from penstock.protocols.tubemq.client.identity import Identity
from penstock.protocols.tubemq.client.masters import Masters
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.client.placements import Placements
from penstock.protocols.tubemq.client.registration import Registration, RegistrationEvent
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.messages import (
    ApprovedClientConfig,
    CloseRequestP2M,
    HeartRequestP2M,
    HeartResponseM2P,
    RegisterRequestP2M,
    RegisterResponseM2P,
    has,
)
from penstock.protocols.tubemq.methods import PRODUCER_CLOSE, PRODUCER_HEARTBEAT, PRODUCER_REGISTER
from penstock.protocols.tubemq.names import check_topic

__all__ = ["Publisher"]

_EVERYTHING_ANEW = -1
_FULL_REFRESH_S = 7_200.0


class Publisher:
    """One producer's standing with the master."""

    def __init__(
        self, channel: Channel[None], masters: Masters, identity: Identity, placements: Placements, options: TubeOptions
    ) -> None:
        self._channel = channel
        self._masters = masters
        self._identity = identity
        self._placements = placements
        self._options = options
        self._registration = Registration()
        self._topics: set[str] = set()
        self._brokers_sum = _EVERYTHING_ANEW
        self._refreshed = channel.monotonic()
        self._limits_id: int | None = None
        self.client_id = identity.producer_id()

    async def open(self) -> None:
        """Register, trying ``register_retries`` times. Raises the last failure."""
        for attempt in range(1, self._options.tube.register_retries + 1):
            try:
                await self._register()
            except PenstockError as error:
                if attempt == self._options.tube.register_retries or not error.retriable:
                    raise
                await self._channel.sleep(self._options.tube.register_backoff_ms / 1_000)
            else:
                return

    async def publish(self, topics: Collection[str]) -> None:
        """Learn where ``topics`` may be written to, now and with every heartbeat. Raises ServerError and others."""
        self._topics |= {check_topic(topic) for topic in topics}
        await self.beat()

    async def beat(self) -> None:
        """One heartbeat. Raises ConnectionLost, RequestTimeout, ServerError; nothing is lost by a failed one."""
        if not self._registration.registered:
            await self.open()
        try:
            answer = await self._heartbeat()
        except ServerError as error:
            if error.code != Code.HB_NO_NODE:
                raise
            self._registration.see(RegistrationEvent.UNKNOWN)
            await self.open()
            answer = await self._heartbeat()
        self._take(answer)

    async def close(self) -> None:
        """Tell the master that this producer goes, if it knows of it."""
        known = self._registration.registered
        self._registration.see(RegistrationEvent.CLOSE)
        if known:
            certificate = self._identity.master_certificate()
            await self._masters.ask(PRODUCER_CLOSE, CloseRequestP2M(client_id=self.client_id, auth_info=certificate))

    async def _register(self) -> None:
        self._registration.see(RegistrationEvent.REGISTER)
        # Another master may answer than the one whose list this sum is of.
        self._brokers_sum = _EVERYTHING_ANEW
        try:
            answer = await self._masters.call(
                PRODUCER_REGISTER,
                RegisterRequestP2M(
                    client_id=self.client_id,
                    topic_list=sorted(self._topics),
                    broker_check_sum=self._brokers_sum,
                    host_name=self._identity.host,
                    auth_info=self._identity.master_certificate(),
                    appd_config=self._known_limits(),
                ),
            )
        except BaseException:
            self._registration.see(RegistrationEvent.FAILED)
            raise
        self._registration.see(RegistrationEvent.ACCEPTED)
        self._take(answer)

    async def _heartbeat(self) -> HeartResponseM2P:
        now = self._channel.monotonic()
        if now - self._refreshed > _FULL_REFRESH_S:
            self._brokers_sum, self._refreshed = _EVERYTHING_ANEW, now
        asked = sorted(self._topics)
        answer = await self._masters.call(
            PRODUCER_HEARTBEAT,
            HeartRequestP2M(
                client_id=self.client_id,
                broker_check_sum=self._brokers_sum,
                host_name=self._identity.host,
                topic_list=asked,
                auth_info=self._identity.master_certificate(),
                appd_config=self._known_limits(),
            ),
        )
        self._placements.note_brokers(answer.broker_infos)
        self._placements.note_published(asked, answer.topic_infos)
        return answer

    def _known_limits(self) -> ApprovedClientConfig | None:
        # Limits are told where the id differs, and a cluster without any has the id that Java's clients begin with.
        return None if self._limits_id is None else ApprovedClientConfig(config_id=self._limits_id)

    def _take(self, answer: RegisterResponseM2P | HeartResponseM2P) -> None:
        """What both kinds of answer carry."""
        self._placements.note_brokers(answer.broker_infos)
        self._brokers_sum = answer.broker_check_sum
        self._identity.note_token(answer.authorized_info)
        if has(answer, "appd_config"):
            self._limits_id = answer.appd_config.config_id
            if has(answer.appd_config, "max_msg_size") and answer.appd_config.max_msg_size > 0:
                self._placements.max_message_bytes[""] = answer.appd_config.max_msg_size
