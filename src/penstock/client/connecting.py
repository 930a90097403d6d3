"""From an address and options to a client: the protocol, the settings, and the asyncio or blocking transport.

Protocols come from their registry. Nothing connects before the first request. Also here: the clock, randomness and
backoff of the engines, and the file in which a member without a server keeps its offsets.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import random as unit_random
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.config import ClientConfig, ConsumerConfig, OptionValue, ProducerConfig, Settings, toml_options
from penstock.config.client import whose_config
from penstock.config.fields import BOOTSTRAP, normal
from penstock.errors import ConfigError
from penstock.interfaces import Dialect, LogClient, WireProtocol
from penstock.net.connecting import FirstContact, Stop, TransportOptions, client_context
from penstock.protocols import USUAL, address_of, protocol, schemes

__all__ = [
    "FILE_OPTION",
    "ClientClock",
    "FileOfOffsets",
    "open_asyncio",
    "open_blocking",
    "protocol_of",
    "split_options",
    "wall_clock_ms",
    "with_their_defaults",
]

Config = TypeVar("Config", bound=ClientConfig)


def protocol_of(address: str) -> WireProtocol:
    """The protocol of an address. Raises ConfigError for an unknown scheme."""
    return protocol(address_of(address).scheme)


def open_asyncio(wire_protocol: WireProtocol, settings: Settings[Config]) -> LogClient:
    """A client over asyncio; call it on the loop that the client will use."""
    from penstock.net.asyncio_channel import AsyncioChannel

    options = _transport(settings.config, _tried_until(settings.config))
    contact = _first_contact(settings.config)
    client = wire_protocol.client(
        lambda dialect: AsyncioChannel(dialect, options=_options_for(dialect, options), contact=contact),
        settings.address.endpoints,
        settings.config,
        settings.extra,
    )
    if (path := client.offsets_file) is not None:
        client.keep_offsets_in(FileOfOffsets(path))
    return client


def open_blocking(wire_protocol: WireProtocol, settings: Settings[Config], stop: Stop) -> LogClient:
    """A client whose coroutines never suspend: for `penstock.net.blocking_channel.run`."""
    from penstock.net.blocking_channel import BlockingChannel

    options = _transport(settings.config, _a_call(settings.config))
    contact = _first_contact(settings.config)
    return wire_protocol.client(
        lambda dialect: BlockingChannel(dialect, options=_options_for(dialect, options), stop=stop, contact=contact),
        settings.address.endpoints,
        settings.config,
        settings.extra,
    )


def _options_for(dialect: Dialect[Any], options: TransportOptions) -> TransportOptions:
    """The same options, without TLS for a dialect that never uses it."""
    return replace(options, ssl=None) if getattr(dialect, "plaintext", False) else options


def _first_contact(config: ClientConfig) -> FirstContact:
    """One FirstContact, shared by all channels of a client."""
    longest_pause_ms = max(config.retry_backoff_max_ms, config.reconnect_backoff_max_ms)
    return FirstContact(config.first_contact_timeout_ms, longest_pause_ms)


def _tried_until(config: ClientConfig) -> str:
    """Text for errors: how long an unreachable server is retried, and the option that sets it."""
    if isinstance(config, ProducerConfig):
        return f"a record waits for delivery_timeout_ms={config.delivery_timeout_ms}{_before(config)}"
    return f"it is tried as long as this client reads; {_a_call(config)}"


def _a_call(config: ClientConfig) -> str:
    return f"a call gives up after api_timeout_ms={config.api_timeout_ms}{_before(config)}"


def _before(config: ClientConfig) -> str:
    return f" (first_contact_timeout_ms={config.first_contact_timeout_ms} before any server has answered)"


def _transport(config: ClientConfig, tried_until: str = "") -> TransportOptions:
    return TransportOptions(
        whose=whose_config(config),
        tried_until=tried_until,
        ssl=client_context(config) if config.tls else None,
        tls_server_name=config.tls_server_name,
        connect_timeout_s=config.connect_timeout_ms / 1_000,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
    )


# Options of a constructor: the address, keyword arguments, and the file that one of them may name.
FILE_OPTION = "config_file"
_FORM = "An address looks like kafka://127.0.0.1:9092/topic?group=name"


def _check_is_text(address: object, role: str) -> None:
    """Raise ConfigError for a configuration in a dict, as other clients take it, with the call to write instead."""
    if isinstance(address, str):
        return
    if not isinstance(address, Mapping):
        raise ConfigError(f"the address must be a string, got {type(address).__name__}", hint=_FORM)
    scheme, servers = _servers_in(address)
    kind = {"consumer": "Consumer", "producer": "Producer"}.get(role, "Admin")
    raise ConfigError(
        "a configuration in a dict is not an address",
        hint=f'Write {kind}("{scheme}://{servers}", **options): dotted names like "group.id" are options here, too',
    )


def _servers_in(given: Mapping[object, object]) -> tuple[str, object]:
    """The scheme whose name for servers is a key of ``given``, and the value of that key."""
    for scheme in schemes():
        words = [word for row in protocol(scheme).config.spellings if row.ours == BOOTSTRAP for word in row.also]
        for name, value in given.items():
            if value and normal(str(name)) in map(normal, words):
                return scheme, value
    return USUAL, "HOST:PORT"


def split_options(
    address: str, options: Mapping[str, OptionValue], role: str
) -> tuple[str, dict[str, OptionValue], dict[str, OptionValue]]:
    """The address without config_file, the keyword options without it, and the options in the file.

    Raises ConfigError.
    """
    _check_is_text(address, role)
    keywords = dict(options)
    parsed = address_of(address, ProducerConfig if role == "producer" else ConsumerConfig)
    address = str(parsed)
    path = keywords.pop(FILE_OPTION, None)
    if FILE_OPTION in parsed.options:
        in_address = parsed.options[FILE_OPTION]
        rest = {name: value for name, value in parsed.options.items() if name != FILE_OPTION}
        address = str(type(parsed)(parsed.scheme, parsed.endpoints, parsed.topics, rest))
        path = in_address if path is None else path
    if path is None:
        return address, keywords, {}
    try:
        text = Path(str(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{FILE_OPTION} {path!r} cannot be read: {error}") from None
    others = protocol(parsed.scheme).config.files.items()
    read = next((read for ending, read in others if str(path).lower().endswith(ending)), toml_options)
    return address, keywords, read(text, role, str(path))


def with_their_defaults(
    address: str, options: Mapping[str, OptionValue], file: Mapping[str, OptionValue]
) -> dict[str, OptionValue]:
    """A consumer's ``file`` options, with the defaults of the client for which the file or the address was written.

    ``address`` and ``options`` are those of `split_options`, and ``file`` is its result.
    """
    parsed = address_of(address)
    words = protocol(parsed.scheme).config
    path = options.get(FILE_OPTION) or parsed.options.get(FILE_OPTION, "")
    by_address = words.address is not None and words.address(address, ConsumerConfig) is not None
    theirs = words.theirs if by_address or str(path).lower().endswith((*words.files,)) else {}
    said = {words.meaning(name)[0] for name in file}
    return {**{name: value for name, value in theirs.items() if name not in said}, **file}


# Time and randomness of the engines, so that a simulation can replace them. Monotonic time is the event loop's.


def wall_clock_ms() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class ClientClock(Struct, frozen=True):
    """``random`` is uniform in [0, 1); ``now_ns`` is the wall clock in nanoseconds."""

    random: Callable[[], float] = unit_random
    now_ns: Callable[[], int] = field(default_factory=lambda: time.time_ns)


# One file with one member's offsets. It is saved completely or not at all, and no other process has it meanwhile.
#
# The lock file next to it stays; its lock ends with the process, even after a crash.
T = TypeVar("T")

# Windows has no fcntl: two members could use the same file there.
_fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None

_MOST_BYTES: Final = 16 << 20
_HINT: Final = "Give offsets_folder a folder that can be written to, and each member of a machine its own instance_name"


class FileOfOffsets:
    """Implements ``penstock.interfaces.client.OffsetsFile``."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser()
        self._lock: int | None = None

    async def load(self) -> bytes | None:
        """Lock the file and read it."""
        return await self._in_thread(self._load)

    async def save(self, content: bytes) -> None:
        """Write a new file, sync it, and replace the old one by it; the old content is kept under ``.bak``."""
        await self._in_thread(lambda: self._save(content))

    def close(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, work)
        except OSError as error:
            raise ConfigError(f"offsets cannot be kept in {self._path}: {error}", hint=_HINT) from error

    def _load(self) -> bytes | None:
        self._take()
        try:
            if self._path.stat().st_size > _MOST_BYTES:
                raise ConfigError(f"{self._path} is no file of offsets: it has more than {_MOST_BYTES} bytes")
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def _save(self, content: bytes) -> None:
        self._take()
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            backup = self._path.with_name(f"{self._path.name}.bak")
            backup.unlink(missing_ok=True)
            os.link(self._path, backup)
        new.replace(self._path)

    def _take(self) -> None:
        if self._lock is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _fcntl is not None:
                _fcntl.flock(lock, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ConfigError(f"another member keeps its offsets in {self._path}", hint=_HINT) from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
