"""What the toy adds to configuration: port, option, others' words, an address form, files, what a node is told."""

from __future__ import annotations

from penstock.config import Address, ClientConfig, OptionValue, ProtocolConfig, parse_endpoints
from penstock.config.fields import BOOTSTRAP, Options, Spelling, flag

PORT = 7007


class ToyNodeConfig(Options):
    spoil_sums: bool = flag(False, about="answer with checksums that are wrong")
    hand_on: bool = flag(True, about="over a cluster of toys, frames go on as they came")


def bang_address(text: str, role: type[ClientConfig]) -> Address | None:
    """``toy!HOST[:PORT]!TOPIC``."""
    word, bang, rest = text.partition("!")
    if word != "toy" or not bang:
        return None
    hosts, _, topic = rest.partition("!")
    return Address("toy", parse_endpoints(hosts, lambda: PORT), (topic,) if topic else ())


def lines(text: str, role: str, source: str) -> dict[str, OptionValue]:
    """``name is value``, a line each."""
    pairs = (line.partition(" is ") for line in text.splitlines() if line)
    return {name: value for name, _, value in pairs}


ADDED = ProtocolConfig(
    port=PORT,
    options=frozenset({"check_sums"}),
    spellings=(Spelling("check_sums", ("verifySums",)), Spelling("group", ("crew",)), Spelling(BOOTSTRAP, ("homes",))),
    absent={"colour": "The toy is grey"},
    address=bang_address,
    files={".toy": lines},
    front=ToyNodeConfig,
)
