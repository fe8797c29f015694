"""What goes over the wire for vpods, and what comes back."""

import msgspec
import pytest

from algorithm.decoding import DecodeError
from extender.core.field_paths import parse
from extender.core.outcomes import Outcome, OutcomeKind
from extender.vpods.names import NO_NUMBER
from extender.vpods.records import ObjectKey, VPodKey, VPodSource
from extender.vpods.vpodreader import decode_vpod
from extender.vpods.writes import placements, read
from extender.vpods.writes.placements import WritePlacements
from tests.unit.vpods.world import World, key

GROUPS = VPodSource(
    name="groups",
    group="internal.kafka.eventing.knative.dev",
    version="v1alpha1",
    resource="consumergroups",
    wanted=parse(".spec.replicas"),
    set=ObjectKey("knative-eventing", "sources"),
    where=((parse(".spec.topLevelUserFacingResourceRef.kind"), "KafkaSource"),),
)
GROUP = {
    "metadata": {"namespace": "ns", "name": "g", "uid": "u", "resourceVersion": "7", "generation": 3},
    "spec": {"replicas": 4, "topLevelUserFacingResourceRef": {"kind": "KafkaSource"}},
    "status": {"placements": [{"podName": "ss-0", "vreplicas": 2}], "reason": "its own"},
}


def only_write(world):
    (sent,) = (each for each in world.sent if isinstance(each.command, WritePlacements))
    return sent


def test_the_status_of_a_vpod_has_one_reason_and_one_condition():
    world = World(scales=False, replicas=1, epoch=1_800_000_000.0)
    world.want("a", 12, generation=2)
    world.observe(9)
    sent = placements.request(only_write(world).command)

    assert sent.path == "/apis/waggle.dev/v1alpha1/namespaces/ns/vpods/a/status"
    body = msgspec.json.decode(sent.body)
    assert body["metadata"] == {"uid": world.vpods[key("a")].uid, "resourceVersion": world.vpods[key("a")].version}
    message = "2 of 12 vreplicas find no room on the pods of ns/fleet"
    assert body["status"] == {
        "placements": [{"podName": "ss-0", "vreplicas": 10}],
        "scheduled": 10,
        "selector": f"waggle.dev/vpod={world.vpods[key('a')].uid}",
        "reason": "NotEnoughRoom",
        "message": message,
        "observedGeneration": 2,
        "conditions": [
            {
                "type": "Scheduled",
                "status": "False",
                "reason": "NotEnoughRoom",
                "message": message,
                "lastTransitionTime": "2027-01-15T08:01:40Z",
                "observedGeneration": 2,
            }
        ],
    }


def test_the_time_of_a_condition_is_that_of_its_last_change():
    world = World(scales=False, epoch=1_800_000_000.0)
    world.want("a", 1)
    world.settle()
    since = world.vpods[key("a")].since
    world.pass_time(60)
    world.want("a", 2)
    world.settle()
    assert world.vpods[key("a")].since == since
    world.want("a", 99)
    world.settle()
    assert world.vpods[key("a")].since > since


def test_a_new_generation_is_observed():
    world = World(scales=False)
    world.want("a", 1, generation=1)
    world.settle()
    world.want("a", 1, generation=2)
    world.settle()
    assert world.vpods[key("a")].observed == 2


def test_of_somebody_elses_resource_only_placements_are_written():
    write = WritePlacements(
        token=1,
        key=VPodKey("ns", "g", "groups"),
        source=GROUPS,
        uid="u",
        version="7",
        placements=(("ss-0", 2),),
        reason="Placed",
        message="",
        scheduled=2,
        condition="True",
        since="",
    )
    sent = placements.request(write)
    resource = "/apis/internal.kafka.eventing.knative.dev/v1alpha1/namespaces/ns/consumergroups/g"
    assert sent.path == f"{resource}/status"
    assert msgspec.json.decode(sent.body) == {
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "status": {"placements": [{"podName": "ss-0", "vreplicas": 2}]},
    }
    elsewhere = msgspec.structs.replace(write, source=msgspec.structs.replace(GROUPS, placements=parse(".spec.at")))
    sent = placements.request(elsewhere)
    assert sent.path == resource
    assert msgspec.json.decode(sent.body)["spec"] == {"at": [{"podName": "ss-0", "vreplicas": 2}]}


def test_somebody_elses_resource_is_read_by_its_paths():
    found = decode_vpod(msgspec.json.encode(GROUP), GROUPS)
    assert found is not None
    assert str(found.key) == "groups:ns/g"
    assert (found.wanted, found.placements, found.set) == (4, (("ss-0", 2),), GROUPS.set)
    assert (found.reason, found.observed) == ("", 0)


@pytest.mark.parametrize("wanted", [None, "4", 2.5, True, -3])
def test_what_is_wanted_may_be_missing_or_wrong(wanted):
    spec = GROUP["spec"] | {"replicas": wanted}
    found = decode_vpod(msgspec.json.encode(GROUP | {"spec": spec}), GROUPS)
    assert found is not None
    assert found.wanted == (1 if wanted is None else -3 if wanted == -3 else NO_NUMBER)


def test_an_object_of_another_kind_is_no_vpod_of_the_source():
    other = {"spec": {"topLevelUserFacingResourceRef": {"kind": "Trigger"}}}
    assert decode_vpod(msgspec.json.encode(GROUP | other), GROUPS) is None


def test_somebody_elses_placements_are_in_the_order_of_their_text():
    """As Knative's controllers write them."""
    write = WritePlacements(
        token=1,
        key=VPodKey("ns", "g", "groups"),
        source=GROUPS,
        uid="u",
        version="7",
        placements=(("ss-2", 1), ("ss-10", 1)),
        reason="Placed",
        message="",
        scheduled=2,
        condition="True",
        since="",
    )
    sent = msgspec.json.decode(placements.request(write).body)
    assert [each["podName"] for each in sent["status"]["placements"]] == ["ss-10", "ss-2"]


def test_a_read_decodes_by_its_source():
    ask = read.ReadVPod(token=1, key=VPodKey("ns", "g", "groups"), source=GROUPS, uid="u")
    assert read.request(ask).path.endswith("/namespaces/ns/consumergroups/g")
    done = Outcome(OutcomeKind.DONE)
    assert read.report(ask, done, msgspec.json.encode(GROUP)).vpod == decode_vpod(msgspec.json.encode(GROUP), GROUPS)
    assert read.report(ask, done, b"nonsense").outcome.kind is OutcomeKind.UNKNOWN
    with pytest.raises(DecodeError):
        decode_vpod(b"[]", GROUPS)
