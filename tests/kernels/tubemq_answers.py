"""Strategies for TubeMQ's messages: good ones, odd attributes, and answers with a few bytes spoilt."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C, TransferedMessage
from penstock.protocols.tubemq.wire.protobuf import encode
from penstock.protocols.tubemq.wire.records import checksum

ELEMENTS = st.one_of(
    st.sampled_from(
        [
            b"", b" ", b"=", b"a=b", b" a = b ", b"a=b=c", b"noequals", b"\xff=\xfe", b"x=", b"$msgType$=blue",
            b"$msgType$= ", b"$msgType$=red", b"$msgTime$=202002291159", b"$msgTime$=202102291159", b"$msgTime$=x",
            b"$msgTime$=000001010000", b"$msgTime$=202413010000", b"$penstock.key$=", b"$penstock.key$=a2V5",
            b"$penstock.key$=a", b"$penstock.key$=a+", b"$penstock.time$=12", b"$penstock.time$=-5",
            b"$penstock.time$=9223372036854775", b"$penstock.time$=9223372036854776", b"$penstock.time$=-",
            b"$penstock.value$=null", b"$penstock.value$=empty", b"$penstock.value$=no", b"$penstock.header$=YQ.Yg",
            b"$penstock.header$=YQ", b"$penstock.header$=YQ.", b"$penstock.header$=.", b"$penstock.header$=Y.Q",
            b"$penstock.header$=YQ.Yg.Yw", b"$other$=1", b"tubemq.filter=x",
        ]
    ),
    st.binary(max_size=12),
    st.builds(lambda name, value: name + b"=" + value, st.binary(max_size=5), st.binary(max_size=5)),
)  # fmt: skip

ATTRIBUTES = st.lists(ELEMENTS, max_size=6).map(b",".join)


@st.composite
def transfered(draw: st.DrawFn) -> TransferedMessage:
    """One message; now and then its checksum or its attributes' length lies."""
    body = draw(st.binary(max_size=20))
    flag = draw(st.sampled_from([0, 1, 1, 1, 2, 3, -1]))
    payload = body
    if flag & 1:
        attributes = draw(ATTRIBUTES)
        length = draw(st.sampled_from([len(attributes)] * 8 + [len(attributes) + len(body) + 1, -1, 2**31 - 1]))
        payload = length.to_bytes(4, "big", signed=True) + attributes + body
        payload = payload[: draw(st.sampled_from([len(payload)] * 8 + [3]))]
    right = checksum(payload)
    return TransferedMessage(
        message_id=draw(st.integers(-(2**63), 2**63 - 1)),
        check_sum=draw(st.sampled_from([right] * 8 + [right ^ 1, -1])),
        pay_load_data=payload,
        flag=flag,
    )


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """An answer to GET_MESSAGE."""
    return encode(
        GetMessageResponseB2C(
            success=True,
            err_code=200,
            messages=draw(st.lists(transfered(), max_size=6)),
            curr_offset=280,
            max_offset=9999,
        )
    )


@st.composite
def spoiled_answers(draw: st.DrawFn) -> bytes:
    """An answer with some bytes changed, put in or left out."""
    data = bytearray(draw(answers()))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)
