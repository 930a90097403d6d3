"""A message that was written is read back equal, at every version, whatever is in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocols.kafka.wire.codec import decode, encode
from tests.property.kafka_messages.shapes import FEW, Shape, bare, filled, instances, messages, name_of, plain


def read_back(shape: Shape, message: Any) -> Any:
    return decode(shape.message, shape.version, b"".join(encode(message, shape.version)))


@pytest.mark.parametrize("versions", messages(), ids=name_of)
def test_full_messages_come_back_and_what_a_version_lacks_is_the_default(versions: tuple[Shape, ...]) -> None:
    for shape in versions:
        message = filled(shape.message, shape.version)
        assert read_back(shape, message) == message, shape


@pytest.mark.parametrize("versions", messages(), ids=name_of)
def test_nulls_and_empty_sequences_come_back(versions: tuple[Shape, ...]) -> None:
    for shape in versions:
        message = bare(shape.message, shape.version)
        assert plain(read_back(shape, message), shape.version) == plain(message, shape.version), shape


@pytest.mark.parametrize("versions", messages(), ids=name_of)
@settings(max_examples=FEW)
@given(data=st.data())
def test_random_messages_come_back(versions: tuple[Shape, ...], data: st.DataObject) -> None:
    for shape in versions:
        message = data.draw(instances(shape.message, shape.version, tame=False))
        assert plain(read_back(shape, message), shape.version) == plain(message, shape.version)
