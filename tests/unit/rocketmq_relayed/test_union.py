"""What Snodes say of each other, put together: the newest counts, silence is not death, nonsense is bounded."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.protocols.rocketmq.server.relayed.peer_groups import Key, Union
from penstock.protocols.rocketmq.wire import messages as m

G = Key("consumer", "g")
MOST = 100


def union(me: str, *, now: float = 0.0) -> Union:
    return Union(me, timeout_s=120, silent_s=6, most=MOST, now=now)


def group(*members: str, name: str = "g", topics: tuple[str, ...] = ("t",), version: int = 0) -> m.PeerGroup:
    return m.PeerGroup(
        kind="consumer",
        name=name,
        version=version,
        members=tuple(m.PeerMember(client_id=each) for each in members),
        subscriptions=tuple(m.SubscriptionData(topic=each, sub_string="*") for each in topics if members),
    )


def ask(asker: Union, teller: Union, now: float) -> set[Key]:
    """One asks the other, who answers."""
    asked = m.AskPeer(id=asker.own.id, known=asker.known())
    return asker.hear(teller.own.id, teller.tell(asked, now), now)


def members(of: Union, key: Key = G) -> set[str]:
    return set(of.members(key))


def test_a_change_is_told_once_and_only_to_whom_it_is_new() -> None:
    here, there = union("here"), union("there")
    there.say(group("a", "b"), 0)
    asked = m.AskPeer(id="here", known=here.known())
    assert there.has_news(asked, 0)
    assert ask(here, there, 0) == {G}
    assert members(here) == {"a", "b"}
    assert not there.has_news(m.AskPeer(id="here", known=here.known()), 0)
    assert ask(here, there, 1) == set()
    there.say(group("a", "b"), 1)
    assert not there.has_news(m.AskPeer(id="here", known=here.known()), 1)
    there.say(group("a"), 2)
    (words,) = there.tell(m.AskPeer(id="here", known=here.known()), 2)
    assert (words.whole, len(words.groups)) == (False, 1)


def test_a_group_that_is_gone_is_gone_also_where_it_is_heard_of_late() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 0)
    ask(here, there, 0)
    there.say(group(), 1)
    for number in range(2_000):  # more than are remembered
        there.say(group("x", name=f"g{number}"), 1)
        there.say(group(name=f"g{number}"), 1)
    assert len(there.own.groups) < 1_500
    assert G in ask(here, there, 2)
    assert members(here) == set()


def test_old_words_change_nothing() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 0)
    old = there.tell(m.AskPeer(id="here"), 0)
    there.say(group("b"), 1)
    ask(here, there, 1)
    assert here.hear("somebody", old, 2) == set()
    assert members(here) == {"b"}


def test_members_of_a_silent_snode_stay_for_two_minutes_and_then_go() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 0)
    ask(here, there, 0)
    assert here.expire(119) == set()
    assert members(here) == {"a"}
    assert here.expire(120) == {G}
    assert members(here) == set()
    assert here.others == {}


def test_who_stood_still_itself_does_not_take_all_others_for_dead() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 0)
    ask(here, there, 0)
    here.was_away(500)
    assert here.expire(501) == set()
    assert members(here) == {"a"}


def test_two_that_know_a_dead_snode_do_not_remind_each_other_of_it_for_ever() -> None:
    here, third, dead = union("here"), union("third"), union("dead")
    dead.say(group("a"), 0)
    ask(here, dead, 0)
    ask(third, dead, 1)
    for second in range(2, 140):
        ask(here, third, second)
        ask(third, here, second)
        here.expire(second)
        third.expire(second)
    assert members(here) == members(third) == set()


def test_who_took_leave_is_no_member_because_of_a_snode_that_is_gone() -> None:
    here, dead, third = union("here"), union("dead"), union("third")
    dead.say(group("a"), 0)
    for each in (here, third):
        ask(each, dead, 0)
    assert third.leave(G, "a", 1)
    third.say(group("c"), 1)
    ask(here, third, 1)
    assert members(here) == {"a", "c"}  # its own Snode lives, as far as anybody knows, and says that it is there
    assert here.lose("dead") == {G}
    assert members(here) == {"c"}
    third.say(group("c", "a"), 2)
    ask(here, third, 2)
    assert members(here) == {"a", "c"}


def test_leaves_are_forgotten_when_nobody_can_need_them_any_more() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 0)
    ask(here, there, 0)
    assert here.leave(G, "a", 1)
    here.say(group(), 1)
    assert here.own.groups[G].left == ("a",)
    assert here.outdated(150) == []
    assert here.outdated(152) == [G]
    here.say(group(), 152)
    assert here.own.groups[G].left == ()
    assert not here.leave(G, "nobody", 153)


def test_a_snode_that_starts_anew_under_another_id_takes_over_by_and_by() -> None:
    here, old, new = union("here"), union("old"), union("new", now=10)
    old.say(group("a", "b"), 0)
    ask(here, old, 0)
    here.lose("old")
    ask(new, here, 10)
    assert members(new) == {"a", "b"}
    new.say(group("a"), 11)
    assert ask(here, new, 11) == set()
    assert members(here) == {"a", "b"}
    assert here.expire(121) == {G}
    assert members(here) == {"a"}


def test_what_a_snode_says_of_itself_counts_more_than_what_others_said_of_it() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 1)
    lie = m.PeerWords(id="there", name="", beat=5, version=1_000, whole=True, groups=(group("evil", version=1_000),))
    here.hear("liar", [lie], 1)
    assert members(here) == {"evil"}
    ask(here, there, 2)
    ask(here, there, 3)
    assert members(here) == {"a"}


def test_nobody_tells_a_snode_about_itself() -> None:
    here = union("here")
    lie = m.PeerWords(id="here", name="", beat=5, version=1_000, whole=True, groups=(group("evil", version=1_000),))
    assert here.hear("liar", [lie], 1) == set()
    assert (members(here), here.others) == (set(), {})


def test_words_that_are_too_many_are_not_taken_and_what_was_known_stays() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 0)
    ask(here, there, 0)
    crowd = group(*(f"m{number}" for number in range(5 * MOST)), version=2)
    words = m.PeerWords(id="there", name="", beat=9_000, version=2, groups=(crowd,))
    assert here.hear("there", [words], 1) == set()
    assert (members(here), here.refused) == ({"a"}, {"there"})
    for number in range(1_000):
        one = replace(words, id=f"s{number}", whole=True, groups=(group("x", version=1),), version=1)
        here.hear("liar", [one], 1)
    assert len(here.others) == 256


def test_topics_that_only_members_elsewhere_want_are_a_change() -> None:
    here, there = union("here"), union("there")
    there.say(group("a"), 0)
    ask(here, there, 0)
    there.say(group("a", topics=("t", "u")), 1)
    assert ask(here, there, 1) == {G}
    found = here.subscription("g", "u")
    assert found is not None
    assert found.sub_string == "*"
    assert here.subscription("g", "v") is None
