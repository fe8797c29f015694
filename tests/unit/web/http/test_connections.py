"""Who has to go when there is no room for another connection."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from extender.web.http.connections import (
    Connection,
    Connections,
    address_of,
    connection_metrics,
    raise_descriptor_limit,
    shares,
)

HEAVY, LIGHT = "10.0.0.1", "10.0.0.2"


@dataclass
class State:
    """What a connection of HTTP says about itself."""

    last_completed: float = -math.inf
    busy: bool = False
    has_backlog: bool = False
    trusted: bool = False
    aborted: bool = False

    def renew(self) -> None:
        raise AssertionError("nobody asked for it")

    def abort(self) -> None:
        self.aborted = True


class Port:
    """A listener's connections, the tests' way to say what is there."""

    def __init__(self, most: int, most_unfinished: int = 256) -> None:
        self.connections = Connections("server", most, most_unfinished)
        self.ended: list[Connection] = []
        self._time = 0.0

    def shaking(self, address: str, *, heard: bool = False) -> Connection:
        self._time += 1
        connection = Connection(address, self._time, give_up=lambda: self.ended.append(connection))
        self.connections.add(connection)
        if heard:
            self.connections.began(connection)
        return connection

    def make_room(self) -> bool:
        """As a listener does; whether there is room now. Everything that is there has had its time."""
        if self.connections.is_full():
            self.connections.evict(self.connections.evictable(self._time + 10))
        return not self.connections.is_full()

    def open(self, address: str, *, completed: float = -math.inf, busy: bool = False, **more: bool) -> Connection:
        self._time += 1
        state = State(completed, busy, **more)
        connection = Connection(address, self._time, give_up=lambda: self.ended.append(connection), served=state)
        self.connections.add(connection)
        self.connections.finish(connection)
        return connection


def is_out(connection: Connection) -> bool:
    assert isinstance(connection.served, State)
    return connection.served.aborted


def test_there_is_room_until_there_are_as_many_as_may_be():
    port = Port(most=2)
    port.open(LIGHT)
    assert port.make_room()
    assert len(port.connections) == 1


def test_a_newcomer_gets_the_place_of_the_one_that_answered_longest_ago():
    port = Port(most=3)
    connections = [port.open(LIGHT, completed=when) for when in (5.0, 3.0, 4.0)]
    assert port.make_room()
    assert [is_out(connection) for connection in connections] == [False, True, False]


def test_one_that_never_completed_a_request_goes_before_one_that_has():
    port = Port(most=3)
    used, unused, other = port.open(LIGHT, completed=1.0), port.open(LIGHT), port.open(LIGHT, completed=2.0)
    port.make_room()
    assert [is_out(connection) for connection in (used, unused, other)] == [False, True, False]


def test_an_unfinished_handshake_goes_before_everything_else():
    port = Port(most=3)
    port.open(LIGHT)
    shaking = port.shaking(LIGHT)
    port.open(LIGHT)
    port.make_room()
    assert port.ended == [shaking]


def test_the_address_with_the_most_connections_pays():
    port = Port(most=4)
    oldest = port.open(LIGHT, completed=1.0)
    heavy = [port.open(HEAVY, completed=when) for when in (9.0, 8.0, 7.0)]
    port.make_room()
    assert not is_out(oldest)
    assert [is_out(connection) for connection in heavy] == [False, False, True]


def test_many_useless_connections_pay_before_more_useful_ones_of_another_address():
    port = Port(most=100)
    useful = [port.open(HEAVY, completed=1.0) for _ in range(80)]
    useless = [port.open(LIGHT) for _ in range(20)]
    port.make_room()
    assert not any(map(is_out, useful))
    assert is_out(useless[0])


def test_a_newcomer_is_not_ended_for_the_next_one_while_there_are_few():
    port = Port(most=64)
    used = [port.open(HEAVY, completed=float(number)) for number in range(62)]
    beginning, unused = port.shaking(HEAVY), port.open(HEAVY)
    beginning.since = unused.since
    assert beginning not in port.connections.evictable(unused.since + 0.5)
    assert used[0] in port.connections.evictable(unused.since + 0.5)
    assert port.connections.evictable(unused.since + 5)[0] is beginning


def test_what_answers_is_not_ended_and_the_newcomer_has_to_wait():
    port = Port(most=2)
    connections = [port.open(LIGHT, busy=True), port.open(HEAVY, completed=1.0, busy=True)]
    assert not port.make_room()
    assert not any(map(is_out, connections))


def test_who_answers_on_more_than_half_of_all_places_pays_and_not_the_only_one_that_is_idle():
    port = Port(most=4)
    idle = port.open(LIGHT, completed=1.0)
    heavy = [port.open(HEAVY, completed=when, busy=True) for when in (9.0, 7.0, 8.0)]
    assert port.make_room()
    assert not is_out(idle)
    assert [is_out(connection) for connection in heavy] == [False, True, False]


def test_who_has_more_than_half_of_all_places_loses_an_idle_one_before_one_that_answers():
    port = Port(most=4)
    port.open(LIGHT, completed=1.0)
    answers, idle = port.open(HEAVY, completed=2.0, busy=True), port.open(HEAVY, completed=9.0)
    port.open(HEAVY, completed=2.0, busy=True)
    assert port.make_room()
    assert is_out(idle)
    assert not is_out(answers)


# -- an attacker at the address of a client that may call verbs -----------------------------------------------------


def test_a_trusted_peer_goes_after_all_others_of_its_address_though_it_never_asked():
    port = Port(most=4)
    trusted = port.open(HEAVY, trusted=True)
    others = [port.open(HEAVY, completed=when) for when in (9.0, 8.0, 7.0)]
    assert port.make_room()
    assert [is_out(connection) for connection in (trusted, *others)] == [False, False, False, True]


def test_a_trusted_idle_peer_goes_after_others_of_its_address_that_answer_on_every_other_place():
    port = Port(most=4)
    trusted = port.open(HEAVY, completed=1.0, trusted=True)
    others = [port.open(HEAVY, completed=when, busy=True) for when in (9.0, 8.0, 7.0)]
    assert port.make_room()
    assert [is_out(connection) for connection in (trusted, *others)] == [False, False, False, True]


def test_a_trusted_peer_goes_after_idle_ones_of_another_address_that_has_fewer():
    port = Port(most=5)
    trusted = [port.open(HEAVY, completed=1.0, trusted=True) for _ in range(2)]
    other = port.open(LIGHT, completed=9.0)
    trusted += [port.open(f"10.0.1.{number}", completed=1.0, trusted=True) for number in range(2)]
    assert port.make_room()
    assert is_out(other)
    assert not any(map(is_out, trusted))


def test_what_has_requests_waiting_goes_before_what_is_idle():
    port = Port(most=3)
    idle = port.open(HEAVY, completed=1.0)
    ahead = port.open(HEAVY, completed=9.0, busy=True, has_backlog=True)
    answers = port.open(HEAVY, completed=1.0, busy=True)
    assert port.make_room()
    assert [is_out(connection) for connection in (idle, ahead, answers)] == [False, True, False]


# -- handshakes -------------------------------------------------------------------------------------------------------


def test_unfinished_handshakes_have_a_limit_of_their_own():
    port = Port(most=100, most_unfinished=3)
    oldest, *others = [port.shaking(LIGHT) for _ in range(4)]
    assert port.ended == [oldest]
    assert port.connections.unfinished == len(others)


def test_of_unfinished_handshakes_the_address_with_the_most_pays():
    port = Port(most=100, most_unfinished=3)
    port.shaking(LIGHT)
    first_heavy = port.shaking(HEAVY)
    for _ in range(2):
        port.shaking(HEAVY)
    assert port.ended == [first_heavy]


@pytest.mark.parametrize("many_are_silent", [True, False])
def test_of_unfinished_handshakes_the_oldest_of_the_kind_of_which_there_are_more_goes(many_are_silent: bool):
    port = Port(most=100, most_unfinished=5)
    port.shaking(LIGHT, heard=many_are_silent)
    oldest, *_ = [port.shaking(LIGHT, heard=not many_are_silent) for _ in range(3)]
    port.shaking(LIGHT)  # a newcomer is silent for a moment
    port.shaking(LIGHT)
    assert port.ended == [oldest]


def test_of_unfinished_handshakes_one_under_way_goes_last():
    port = Port(most=100, most_unfinished=2)
    under_way, waiting = [port.shaking(LIGHT, heard=True) for _ in range(2)]
    port.connections.start(under_way)
    port.shaking(LIGHT)
    assert port.ended == [waiting]


def test_a_finished_handshake_does_not_count_as_unfinished():
    port = Port(most=100, most_unfinished=1)
    first = port.shaking(LIGHT)
    first.served = State()
    port.connections.finish(first)
    port.shaking(LIGHT)
    assert not is_out(first)
    assert (port.connections.unfinished, len(port.connections)) == (1, 2)


def test_overdue_are_the_handshakes_that_began_before():
    port = Port(most=100)
    first, second, _third = [port.shaking(LIGHT) for _ in range(3)]
    assert port.connections.overdue(3.0) == [first, second]


def test_what_has_ended_may_end_again():
    port = Port(most=100)
    connection = port.shaking(LIGHT)
    port.connections.remove(connection)
    port.connections.remove(connection)
    assert (len(port.connections), port.connections.unfinished) == (0, 0)


class CountedLooks(State):
    """Counts how often a search for a victim has looked at it."""

    looks = 0

    @property
    def busy(self) -> bool:  # type: ignore[override]
        CountedLooks.looks += 1
        return False

    @busy.setter
    def busy(self, _value: bool) -> None:
        pass


@pytest.mark.parametrize("most", [200, 800])
def test_a_flood_costs_the_same_per_connection_however_many_there_may_be(most: int):
    port = Port(most=most)
    CountedLooks.looks = 0
    for _ in range(4 * most):
        port.make_room()
        port.open(HEAVY).served = CountedLooks()
    assert len(port.connections) <= most
    assert CountedLooks.looks / (3 * most) < 40


def test_metrics_tell_what_there_is_and_what_was_ended():
    port = Port(most=2)
    port.open(LIGHT, completed=1.0)
    port.shaking(LIGHT)
    port.make_room()
    now, evicted = connection_metrics([port.connections])
    assert now.samples == [
        ({"port": "server", "state": "beginning"}, 0.0),
        ({"port": "server", "state": "open"}, 1.0),
    ]
    assert evicted.samples[0] == ({"port": "server", "use": "beginning"}, 1.0)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        (("10.1.2.3", 5), "10.1.2.3"),
        (("::ffff:10.1.2.3", 5, 0, 0), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
    ],
)
def test_by_what_a_peer_is_counted(name: tuple[object, ...], address: str):
    assert address_of(name) == address


# -- file descriptors -------------------------------------------------------------------------------------------------


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one(limits: tuple[int, int]):
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    raised = raise_descriptor_limit()
    assert raised == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512


def test_with_many_descriptors_everybody_has_what_was_asked_for():
    with capture_logs() as logs:
        assert shares(20_000, 1000) == (1000, 200)
    assert logs == []


@pytest.mark.parametrize("descriptors", [64, 256, 1024])
def test_with_few_descriptors_some_stay_for_the_rest_of_the_process_and_that_is_said(descriptors: int):
    with capture_logs() as logs:
        most, health = shares(descriptors, 1000)
    assert most >= health > 0
    assert most + health <= max(descriptors - 200, descriptors // 2)
    assert [line["open_files"] for line in logs] == [descriptors]
