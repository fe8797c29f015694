"""One replica's election, step by step, with the numbers of the default configuration."""

from __future__ import annotations

import random

import pytest

from extender.kube.lease.election import Action, Election, LeaseTiming, Look, Record, Seen, Wait, Write

TIMING = LeaseTiming()


def made() -> Election:
    return Election("me", TIMING, random.Random(1))


def held(holder: str = "other", term: int = 3, *, version: str = "1", beat: str = "b", duration: float = 10) -> Seen:
    return Seen(Record(holder, term, duration, beat), version, "u")


def free(version: str = "1") -> Seen:
    return Seen(Record("", 3, 1, "b", released=True), version, "u")


def leader(at: float = 100.0) -> Election:
    """Took a released Lease; its write was sent `at`, and answered 0.1 s later."""
    election = made()
    election.saw(free(), at)
    take = election.step(at)
    assert isinstance(take, Write)
    election.wrote(take, held("me", 4, version="2"), started=at, now=at + 0.1)
    return election


def waited(election: Election, now: float) -> tuple[Action, float]:
    """What is to be done after having waited, and when."""
    action = election.step(now)
    while isinstance(action, Wait):
        now = action.until
        action = election.step(now)
    return action, now


def test_it_looks_first() -> None:
    assert made().step(0) == Look()


def test_a_released_lease_is_taken_at_once_in_the_next_term() -> None:
    election = made()
    election.saw(free(), 100)
    assert election.step(100) == Write(free(), 4)


def test_a_lease_that_is_not_there_is_made_at_once_and_is_nobodys() -> None:
    election = made()
    election.saw(Seen(), 100)
    create = election.step(100)
    assert create == Write(Seen(), 0)
    assert create.creates
    election.wrote(create, Seen(Record("", 0, 10), "1", "u"), started=100, now=100.1)
    assert election.term == 0


def test_a_lease_that_was_just_made_is_taken_after_a_whole_lease() -> None:
    election = made()
    election.saw(Seen(Record("", 0, 10), "1", "u"), 100)
    action, now = waited(election, 100)
    while action == Look():
        assert now < 110
        election.saw(Seen(Record("", 0, 10), "1", "u"), now)
        action, now = waited(election, now)
    assert (action, now) == (Write(Seen(Record("", 0, 10), "1", "u"), 1), 110)


def test_a_lease_that_changes_is_never_taken() -> None:
    election = made()
    now = 100.0
    for beat in range(50):
        election.saw(held(beat=str(beat), version=str(beat)), now)
        action, now = waited(election, now)
        assert action == Look()


def test_a_change_of_labels_is_no_renewal() -> None:
    election = made()
    now = 100.0
    election.saw(held(version="0"), now)
    action, now = waited(election, now)
    for version in range(1, 20):
        if isinstance(action, Write):
            break
        election.saw(held(version=str(version)), now)
        action, now = waited(election, now)
    assert isinstance(action, Write)
    assert now == 110


def test_a_holder_that_asks_for_more_patience_gets_it_within_reason() -> None:
    for duration, free_at in ((20, 120), (1, 110), (1e9, 220)):
        election = made()
        election.saw(held(duration=duration), 100)
        assert election.step(free_at - 0.01) == Look()
        assert isinstance(election.step(free_at), Write)


def test_the_deadline_counts_from_before_the_write_was_sent() -> None:
    assert leader(at=100).deadline == 107


def test_a_take_that_is_answered_after_its_deadline_is_no_tenure() -> None:
    election = made()
    election.saw(free(), 100)
    take = election.step(100)
    election.wrote(take, held("me", 4, version="2"), started=100, now=107)
    assert election.term == 0
    assert election.step(107) == Write(held("me", 4, version="2"), 5)


def test_a_renewal_that_is_answered_after_the_old_deadline_does_not_save_the_term() -> None:
    election = leader(at=100)
    renew = election.step(106.9)
    assert renew == Write(held("me", 4, version="2"), 4)
    election.wrote(renew, held("me", 4, version="3", beat="c"), started=106.9, now=107.1)
    assert election.term == 0
    assert election.step(107.1) == Write(held("me", 4, version="3", beat="c"), 5)


def test_a_term_that_was_ended_from_outside_does_not_begin_again() -> None:
    election = leader(at=100)
    renew = election.step(102)
    election.lapse()
    election.wrote(renew, held("me", 4, version="3"), started=102, now=102.1)
    assert election.term == 0


def test_a_leader_renews_in_time_for_three_tries() -> None:
    action, now = waited(leader(at=100), 100.1)
    assert isinstance(action, Write)
    assert 101.2 <= now <= 101.5


def test_a_leader_whose_calls_all_fail_ends_with_its_deadline() -> None:
    election = leader(at=100)
    now = 100.1
    while isinstance(action := election.step(now), Wait) or now < 107:
        if not election.term:
            break
        if isinstance(action, Wait):
            now = action.until
        else:
            election.failed(now)
    assert (election.term, now) == (0, 107)


def test_what_is_read_back_gains_no_time() -> None:
    election = leader(at=100)
    election.step(102)
    election.failed(103)
    action, now = waited(election, 103)
    assert action == Look()
    election.saw(held("me", 4, version="3", beat="c"), now)
    assert (election.term, election.deadline) == (4, 107)
    assert election.step(now) == Write(held("me", 4, version="3", beat="c"), 4)


def test_a_refused_renewal_is_looked_after_at_once() -> None:
    election = leader(at=100)
    election.step(102)
    election.refused(102.1)
    assert election.step(102.1) == Look()


@pytest.mark.parametrize("seen", [held("other", 5), held("me", 9), free("9")], ids=["another", "edited", "released"])
def test_a_leader_that_finds_the_lease_another_s_ends_at_once(seen: Seen) -> None:
    election = leader(at=100)
    election.refused(102)
    election.saw(seen, 102.1)
    assert election.term == 0


@pytest.mark.parametrize("seen", [Seen(), Seen(Record("", 0, 0), "9", "v")], ids=["deleted", "spoilt"])
def test_a_leader_goes_on_where_nobody_holds_the_lease(seen: Seen) -> None:
    election = leader(at=100)
    election.refused(102)
    election.saw(seen, 102.1)
    assert (election.term, election.deadline) == (4, 107)
    assert isinstance(election.step(102.1), Write)


def test_a_lease_that_starts_anew_does_not_turn_terms_back() -> None:
    election = made()
    election.saw(held(term=41), 100)
    election.saw(Seen(), 101)
    assert election.step(101) == Write(Seen(), 41)
    election.saw(Seen(Record("", 0, 10), "1", "v"), 102)
    assert election.step(112) == Write(Seen(Record("", 0, 10), "1", "v"), 42)


def test_a_server_that_refuses_for_ever_is_asked_at_measured_pace() -> None:
    election = made()
    now, tries = 100.0, 0
    while now < 130:
        action = election.step(now)
        if isinstance(action, Wait):
            now = action.until
        elif isinstance(action, Look):
            election.saw(free(), now)
        else:
            election.refused(now)
            tries += 1
    assert tries <= 45


def test_retry_after_is_believed_within_reason() -> None:
    election = made()
    election.failed(100, retry_after=3600)
    assert election.step(100) == Wait(101.5)


def test_resigning_releases_what_is_ours() -> None:
    election = leader(at=100)
    release = election.resign()
    assert release == Write(held("me", 4, version="2"), 4, release=True)
    assert election.term == 0
    election.wrote(release, free("3"), started=101, now=101.1)
    assert election.resign() is None


def test_resigning_looks_first_if_the_last_write_was_not_answered() -> None:
    election = leader(at=100)
    election.step(102)
    election.failed(103)
    assert election.resign() == Look()


def test_resigning_leaves_another_s_lease_alone() -> None:
    election = made()
    election.saw(held("other"), 100)
    assert election.resign() is None


@pytest.mark.parametrize("seed", range(30))
def test_a_follower_takes_over_within_fifteen_seconds_of_a_crash_and_two_of_a_release(seed: int) -> None:
    """The holder renews a last time at 100 and crashes, or releases at 100; the follower's calls take 0.1 s."""
    for last, within in ((held(beat="last", version="7"), 15.0), (free("7"), 2.0)):
        election = Election("me", TIMING, random.Random(seed))
        election.saw(held(beat="before"), 100 - random.Random(seed).uniform(0, 1.5))
        now = 99.0
        while not election.term:
            action, now = waited(election, now)
            now += 0.1
            if isinstance(action, Look):
                election.saw(last if now > 100 else held(beat="before"), now)
            else:
                election.wrote(action, held("me", 4, version="8"), started=now - 0.1, now=now)
        assert now - 100 <= within
