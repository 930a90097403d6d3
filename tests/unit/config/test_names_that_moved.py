"""Names of one protocol that were in ``penstock.config`` before it had a folder for them are still found there."""

import pytest

import penstock.config
from penstock.protocols.tubemq.config import TubeConfig, parse_go_address


def test_they_are_the_same() -> None:
    assert penstock.config.TubeConfig is TubeConfig
    assert penstock.config.parse_go_address is parse_go_address
    for name in ("TUBE_OPTIONS", "ConsumePosition", "ini_options", "is_go_address", "tube_config"):
        assert getattr(penstock.config, name) is not None


def test_what_was_never_there_is_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = penstock.config.Nothing
