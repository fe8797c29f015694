"""Lists that do not end, repeat themselves, or are too large to be held."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from algorithm.reads import Reads
from extender.kube.client import bounds
from extender.kube.client.api import Interrupted, Response
from extender.kube.client.bounds import Bound
from extender.kube.informers.listing import ListPager
from extender.kube.informers.objects import ObjectDecoder
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import PODS, ListBoundError, ReflectorStats, pods_read_by
from extender.kube.informers.store import weigh
from tests.support.apiserver.kube_objects import pod

Query = dict[str, str]


def page(*names: str, token: str = "", labels: dict[str, str] | None = None) -> Response:
    items = [labelled(name, labels or {}) for name in names]
    body = {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": token}, "items": items}
    return Response(200, json.dumps(body).encode())


def labelled(name: str, labels: dict[str, str]) -> dict[str, Any]:
    made = pod(name)
    made["metadata"]["labels"] = labels
    return made


class Listing:
    """Lists what `answer` gives, and counts what was asked for."""

    def __init__(self, answer: Callable[[Query], Response], *, size: int = 500, **bounded: Any) -> None:
        self._answer = answer
        self.queries: list[Query] = []
        stats = ReflectorStats()
        objects = ObjectDecoder(PODS, stats, structlog.get_logger())
        self.lister = ListPager(PODS, objects, stats, self._get, page=size, **bounded)

    def _get(self, query: Query) -> Response:
        self.queries.append(query)
        return self._answer(query)

    def refused(self) -> Bound:
        with pytest.raises(ListBoundError) as caught:
            self.lister.read()
        return caught.value.bound


def too_large() -> Interrupted:
    return Interrupted("the answer has more than so many bytes", bound=Bound.SIZE)


def pages_for(most: int, number: int) -> Callable[[Query], Response]:
    """A server of so many pods, whose pages of more than `most` are too large to be read."""

    def answer(query: Query) -> Response:
        limit, begin = int(query["limit"]), int(query.get("continue", 0))
        if limit > most:
            raise too_large()
        end = min(number, begin + limit)
        return page(*(f"p{index}" for index in range(begin, end)), token=str(end) if end < number else "")

    return answer


def test_pages_that_are_too_large_are_asked_for_again_with_fewer_objects_and_the_next_list_tries_more() -> None:
    listing = Listing(pages_for(40, 100))
    assert len(listing.lister.read().objects) == 100
    assert [query["limit"] for query in listing.queries] == ["500", "125", "31", "31", "31", "31"]
    listing.queries.clear()
    listing.lister.read()
    assert [query["limit"] for query in listing.queries] == ["124", "31", "31", "31", "31"]


def test_one_object_that_is_too_large_for_a_page_is_an_error() -> None:
    def never(_query: Query) -> Response:
        raise too_large()

    listing = Listing(never)
    assert listing.refused() is Bound.SIZE
    assert [query["limit"] for query in listing.queries] == ["500", "125", "31", "7", "1"]


def test_other_failures_are_not_tried_with_smaller_pages() -> None:
    def dropped(_query: Query) -> Response:
        raise Interrupted("connection closed")

    listing = Listing(dropped)
    with pytest.raises(Interrupted):
        listing.lister.read()
    assert len(listing.queries) == 1


@pytest.mark.parametrize("tokens", [["a"], ["a", "b", "c"]])
def test_page_tokens_that_come_again_end_the_list(tokens: list[str]) -> None:
    endless = itertools.cycle(tokens)
    listing = Listing(lambda _query: page("p", token=next(endless)))
    assert listing.refused() is Bound.LIST
    assert len(listing.queries) == len(tokens) + 1


def test_a_token_that_is_too_long_is_not_sent_back() -> None:
    listing = Listing(lambda _query: page("p", token="x" * (bounds.PAGE_TOKEN + 1)))
    assert listing.refused() is Bound.LIST
    assert len(listing.queries) == 1


def test_pages_without_end_that_have_nothing_in_them_end_the_list() -> None:
    numbers = itertools.count(1)
    listing = Listing(lambda _query: page(token=str(next(numbers))))
    assert listing.refused() is Bound.LIST
    assert len(listing.queries) == bounds.EMPTY_PAGES + 1


def fresh_pages(count: int, labels: dict[str, str] | None = None) -> Iterator[Response]:
    numbers = itertools.count(1)
    while True:
        number = next(numbers)
        yield page(*(f"p{number}-{index}" for index in range(count)), token=str(number), labels=labels)


def test_a_list_that_takes_too_long_is_given_up() -> None:
    pages, clock = fresh_pages(1), itertools.count(0.0, 10.0)
    listing = Listing(lambda _query: next(pages), seconds=100.0, clock=lambda: next(clock))
    assert listing.refused() is Bound.LIST
    assert len(listing.queries) == 11


@pytest.mark.parametrize("labels", [{}, {f"label-{n}": "x" * 50 for n in range(100)}])
def test_a_list_without_end_is_given_up_when_there_is_no_room_for_it(labels: dict[str, str]) -> None:
    """Fewer objects if they are larger."""
    pages, most = fresh_pages(50, labels=labels), 2 * bounds.MIB
    listing = Listing(lambda _query: next(pages), most=lambda: most)
    assert listing.refused() is Bound.CACHE
    one = weigh(PODS.decode(json.dumps(labelled("p", labels)).encode()))
    assert len(listing.queries) == pytest.approx(most / one / 50, abs=2)


def test_the_same_object_again_and_again_takes_room_each_time() -> None:
    numbers = itertools.count(1)
    listing = Listing(lambda _query: page("p", token=str(next(numbers))), most=lambda: bounds.MIB)
    assert listing.refused() is Bound.CACHE


def test_objects_that_cannot_be_read_take_room_too() -> None:
    numbers = itertools.count(1)
    listing = Listing(lambda _query: page(*[""] * 100, token=str(next(numbers))), most=lambda: bounds.MIB)
    assert listing.refused() is Bound.CACHE
    assert len(listing.queries) < 20


def test_pods_whose_claims_are_long_do_not_use_up_the_room() -> None:
    reads = Reads(frozenset(), frozenset({"claim"}), claims=frozenset({"claim"}))
    resource = pods_read_by(PodReader(reads))

    def carrier(number: int) -> dict[str, Any]:
        made = pod(f"p{number}")
        made["metadata"]["annotations"] = {"claim": f"{number}" * 20_000}
        made["spec"] = {**made.get("spec", {}), "nodeName": "n"}
        return made

    body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": [carrier(n) for n in range(10, 60)]}).encode()
    stats = ReflectorStats()
    objects = ObjectDecoder(resource, stats, structlog.get_logger())
    lister = ListPager(resource, objects, stats, lambda _: Response(200, body), page=500, most=lambda: 600_000)
    listed = lister.read()
    kept = [bool(each.annotation("claim")) for each in listed.objects.values()]
    assert len(kept) == 50
    assert 5 < sum(kept) < 10
    assert all(each.node_name == "n" for each in listed.objects.values())
