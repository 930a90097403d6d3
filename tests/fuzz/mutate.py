"""Ways to spoil bytes. Wire formats break where lengths and counts lie, so those lies come most often.

Pure: the dice are passed in, so that a seed repeats a run.
"""

from collections.abc import Callable, Sequence
from random import Random

Mutation = Callable[[bytearray, Random], None]

# What a length field says when it lies: nothing, less than nothing, one too many, all the memory there is.
LIES = (
    0,
    1,
    -1,
    -2,
    2,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    -(2**31),
    2**32 - 1,
    2**62,
    2**63 - 1,
)
VARINT_LIES = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\x7f",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 10,
    b"\xff" * 11,
)


def flip_bits(data: bytearray, dice: Random) -> None:
    for _ in range(dice.randint(1, 4)):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def set_bytes(data: bytearray, dice: Random) -> None:
    at = dice.randrange(len(data))
    data[at : at + dice.randint(1, 8)] = dice.randbytes(dice.randint(1, 8))


def truncate(data: bytearray, dice: Random) -> None:
    del data[dice.randrange(len(data)) :]


def extend(data: bytearray, dice: Random) -> None:
    data += dice.randbytes(dice.randint(1, 64))


def cut_out(data: bytearray, dice: Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.randint(1, 16)]


def repeat(data: bytearray, dice: Random) -> None:
    at = dice.randrange(len(data))
    piece = data[at : at + dice.randint(1, 64)]
    data[at:at] = piece * dice.randint(1, 4)


def lie(data: bytearray, dice: Random) -> None:
    """Overwrite an integer of 1, 2, 4 or 8 bytes, in either order of bytes; also with lengths that are nearly right."""
    width = dice.choice((1, 2, 4, 4, 4, 8))
    at = dice.randrange(len(data))
    left = len(data) - at - width
    value = dice.choice((*LIES, left, left + 1, left - 1, len(data)))
    order = "big" if dice.random() < 0.8 else "little"
    data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, order)  # type: ignore[arg-type]


def lie_in_a_varint(data: bytearray, dice: Random) -> None:
    at = dice.randrange(len(data))
    lies = dice.choice(VARINT_LIES)
    data[at : at + dice.choice((1, len(lies)))] = lies


def nudge(data: bytearray, dice: Random) -> None:
    """One up or down: the number next to the right one is the one that is not checked."""
    at = dice.randrange(len(data))
    data[at] = (data[at] + dice.choice((-1, 1))) % 256


MUTATIONS: Sequence[Mutation] = (
    flip_bits,
    set_bytes,
    truncate,
    extend,
    cut_out,
    repeat,
    lie,
    lie,
    lie,
    lie_in_a_varint,
    lie_in_a_varint,
    nudge,
    nudge,
)


def mutant(corpus: Sequence[bytes], dice: Random, longest: int) -> bytes:
    """One to four mutations of a member of the corpus, sometimes of its head with another one's tail."""
    data = bytearray(dice.choice(corpus))
    if dice.random() < 0.15:
        tail = dice.choice(corpus)
        data = data[: dice.randint(0, len(data))] + tail[dice.randint(0, len(tail)) :]
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        if not data:
            data += dice.randbytes(dice.randint(1, 16))
        dice.choice(MUTATIONS)(data, dice)
    return bytes(data[:longest])
