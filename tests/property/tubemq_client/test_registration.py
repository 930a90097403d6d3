"""The registration's table: every pair has an answer, and only the master's word makes anybody registered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Closed
from penstock.groups.state_machine import UndefinedTransition
from penstock.protocols.tubemq.client.cluster import Registration, RegistrationEvent, RegistrationState, after

EVENTS = list(RegistrationEvent)


@pytest.mark.parametrize("state", list(RegistrationState))
@pytest.mark.parametrize("event", EVENTS)
def test_every_pair_has_a_next_state_or_an_error_with_a_name(
    state: RegistrationState, event: RegistrationEvent
) -> None:
    if state is RegistrationState.CLOSED and event is RegistrationEvent.REGISTER:
        with pytest.raises(Closed):
            after(state, event)
    elif state is RegistrationState.CREATED and event not in {RegistrationEvent.REGISTER, RegistrationEvent.CLOSE}:
        with pytest.raises(UndefinedTransition, match="created"):
            after(state, event)
    else:
        assert after(state, event) in RegistrationState


@given(st.lists(st.sampled_from(EVENTS)))
def test_nobody_is_registered_without_an_acceptance_and_nothing_comes_back_from_closed(
    events: list[RegistrationEvent],
) -> None:
    registration = Registration()
    accepted = closed = False
    for event in events:
        try:
            registration.see(event)
        except (Closed, UndefinedTransition):
            continue
        accepted |= event is RegistrationEvent.ACCEPTED
        closed |= event is RegistrationEvent.CLOSE
        assert accepted or not registration.registered
        assert not closed or registration.state is RegistrationState.CLOSED
