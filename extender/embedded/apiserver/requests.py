"""From an HTTP request to a verb and back: methods, media types, options in query and body, status codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from extender.embedded.apiserver import errors
from extender.embedded.apiserver.cluster import Cluster, DeleteOptions
from extender.embedded.apiserver.custom.objects import UnknownFields
from extender.embedded.apiserver.lists import list_page, number, selector_of
from extender.embedded.apiserver.objects import encode, type_prefix
from extender.embedded.apiserver.patches import APPLY, JSON, MERGE, STRATEGIC
from extender.embedded.apiserver.pods import bind, evict
from extender.embedded.apiserver.resources import ResourceTable, Target
from extender.embedded.apiserver.reviews import review
from extender.embedded.apiserver.scale import patch_scale, read_scale, update_scale
from extender.embedded.apiserver.store import Stored
from extender.embedded.apiserver.table import CUSTOM_RESOURCE_DEFINITIONS, PODS
from extender.embedded.apiserver.views import shown
from extender.embedded.apiserver.watch import WatchOptions

#: Content types of a whole object. curl's default is taken as well: nobody means a form here.
_OBJECT_TYPES = ("", "application/json", "application/x-www-form-urlencoded")
#: Said rather than done for real: a dry run that writes would be the worst of answers.
_NO_DRY_RUN = "dryRun is not supported by the embedded API server, except for the creation of objects and evictions"
_DRY_RUN = "All"


@dataclass(frozen=True, slots=True)
class Request:
    """A whole HTTP request. `full_path` includes the query; `media_type` is without parameters."""

    method: str
    path: str
    full_path: str
    query: Mapping[str, str]
    media_type: str
    body: bytes
    accept: str = ""
    agent: str = ""
    #: Who asks, as Impersonate-User says it: nobody is known here, but policies can name somebody.
    user: str = ""

    @property
    def watches(self) -> bool:
        return self.flag("watch")

    def flag(self, name: str) -> bool:
        """A boolean parameter as Go reads it: present and not false or 0."""
        return self.query.get(name, "false").lower() not in ("false", "0")

    def methods(self, table: ResourceTable) -> tuple[str, ...]:
        """The names under which fault rules know this request: a collection's GET is also LIST or WATCH."""
        if self.method != "GET":
            return (self.method,)
        target = table.resolve(self.path)
        if target is None or target.name:
            return ("GET",)
        return ("GET", "WATCH" if self.watches else "LIST")


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Shown to people by kubectl.
    warnings: Sequence[str] = ()
    media_type: bytes = b"application/json"


def answer(
    cluster: Cluster, target: Target, request: Request, *, behind: int = 0, page: int = 0
) -> Answer | WatchOptions:
    """Carry out a request; a watch is only described. `behind` makes reads that many revisions stale, `page` is the
    most that a list gives at once (0: whatever was asked for).

    Raises ApiError.
    """
    if request.method not in ("GET", "POST") and "dryRun" in request.query:
        raise errors.bad_request(_NO_DRY_RUN)
    if target.subresource and target.subresource not in target.resource.subresources:
        raise errors.not_found(target.resource, target.name)
    if target.resource.is_review:
        return _review(target, request)
    if target.subresource and "dryRun" in request.query:
        raise errors.bad_request(_NO_DRY_RUN)
    if target.subresource in ("binding", "eviction"):
        return _pod_subresource(cluster, target, request)
    if target.subresource == "scale":
        return _scale(cluster, target, request)
    if not target.name:
        return _on_collection(cluster, target, request, behind, page)
    if target.resource.namespaced and not target.namespace:
        raise errors.unknown_resource()
    if request.method == "GET":
        return _object(target, _read(cluster, target, behind))
    if request.method == "PUT":
        unknown = _unknown_fields(request, "UpdateOptions")
        return _object(target, cluster.update(target, _body(request, _OBJECT_TYPES), unknown), unknown)
    if request.method == "PATCH":
        return _patch(cluster, target, request)
    if request.method == "DELETE" and not target.subresource:
        return _delete(cluster, target, request)
    raise errors.method_not_allowed()


def _on_collection(cluster: Cluster, target: Target, request: Request, behind: int, page: int) -> Answer | WatchOptions:
    if request.method == "GET" and request.watches:
        return _watch_options(cluster, target, request)
    if request.method == "GET":
        return Answer(list_page(cluster.store, target, request.query, behind=behind, most=page))
    if request.method == "POST":
        if target.resource.namespaced and not target.namespace:
            raise errors.unknown_resource() if target.resource.custom else errors.method_not_allowed()
        unknown = _unknown_fields(request, "CreateOptions")
        body = _body(request, _OBJECT_TYPES)
        return _object(target, cluster.create(target, body, unknown, dry_run=_dry_run(request)), unknown, status=201)
    if request.method == "DELETE":
        return _delete_collection(cluster, target, request)
    raise errors.method_not_allowed()


def _read(cluster: Cluster, target: Target, behind: int) -> Stored:
    if not behind:
        return cluster.require(target)
    collection = cluster.store.collection(target.resource)
    revision = max(cluster.store.revision - behind, collection.floor)
    key = (target.namespace, target.name)
    for stored in collection.at(revision):
        if stored.key == key:
            return stored
    raise errors.not_found(target.resource, target.name)


def _review(target: Target, request: Request) -> Answer:
    if request.method != "POST" or target.name:
        raise errors.method_not_allowed()
    question = _body(request, _OBJECT_TYPES)
    if not isinstance(question, dict):
        raise errors.bad_request(f"the body must be a JSON object, not {type(question).__name__}")
    return Answer(encode(review(target.resource, question)), 201)


def _scale(cluster: Cluster, target: Target, request: Request) -> Answer:
    if request.method == "GET":
        return Answer(encode(read_scale(cluster, target)))
    if request.method == "PUT":
        return Answer(encode(update_scale(cluster, target, _body(request, _OBJECT_TYPES))))
    if request.method == "PATCH":
        kind = request.media_type
        return Answer(encode(patch_scale(cluster, target, _body(request, (JSON, MERGE, STRATEGIC)), kind)))
    raise errors.method_not_allowed()


def _patch(cluster: Cluster, target: Target, request: Request) -> Answer:
    if request.media_type == APPLY:
        return _apply(cluster, target, request)
    taken = (JSON, MERGE, APPLY) if target.resource.custom else (JSON, MERGE, STRATEGIC)
    if request.media_type not in taken:
        raise errors.unsupported_media_type(taken)
    unknown = _unknown_fields(request, "PatchOptions")
    patch = _body(request, (request.media_type,))
    return _object(target, cluster.patch(target, patch, request.media_type, unknown), unknown)


def _apply(cluster: Cluster, target: Target, request: Request) -> Answer:
    if not request.query.get("fieldManager"):
        raise errors.manager_required()
    try:
        manifest = yaml.safe_load(request.body)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"the body cannot be read as YAML: {error}") from None
    unknown = _unknown_fields(request, "PatchOptions")
    stored, is_new = cluster.apply(target, manifest, unknown)
    return _object(target, stored, unknown, status=201 if is_new else 200)


def _dry_run(request: Request) -> bool:
    """Whether a creation is to be tried only. Raises 422."""
    mode = request.query.get("dryRun", "")
    if mode not in ("", _DRY_RUN):
        fault = errors.unsupported_value("dryRun", mode, (_DRY_RUN,))
        raise errors.options_invalid("CreateOptions", fault)
    return mode == _DRY_RUN


def _unknown_fields(request: Request, options: str) -> UnknownFields:
    """What the client wants to become of unknown fields. Raises 422."""
    mode = request.query.get("fieldValidation", "")
    if mode not in ("", "Ignore", "Strict", "Warn"):
        fault = errors.unsupported_value("fieldValidation", mode, ("", "Ignore", "Strict", "Warn"))
        raise errors.options_invalid(options, fault)
    return UnknownFields(mode or "Warn")


def _delete(cluster: Cluster, target: Target, request: Request) -> Answer:
    gone = cluster.delete(target, _delete_options(request), user=request.user)
    if (
        target.resource in (PODS, CUSTOM_RESOURCE_DEFINITIONS)
        or cluster.store.collection(target.resource).get(gone.key) is not None
    ):
        return _object(target, gone)
    details = {"name": target.name, "kind": target.resource.plural, "uid": gone.uid}
    if target.resource.group:
        details["group"] = target.resource.group
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Answer(encode(status))


def _delete_collection(cluster: Cluster, target: Target, request: Request) -> Answer:
    options, selector = _delete_options(request), selector_of(target, request.query)
    before = list_page(cluster.store, target, request.query)
    for stored in list(cluster.store.collection(target.resource)):
        if selector.matches(stored.key[0], stored.labels, stored.fields):
            cluster.delete(Target(target.resource, *stored.key), options, user=request.user)
    return Answer(before)


def _delete_options(request: Request) -> DeleteOptions:
    options = _convert(_body(request, _OBJECT_TYPES)) if request.body.strip() else DeleteOptions()
    if options.dry_run:
        raise errors.bad_request(_NO_DRY_RUN)
    if "gracePeriodSeconds" in request.query:
        options = msgspec.structs.replace(options, grace_period_seconds=number(request.query, "gracePeriodSeconds"))
    if "propagationPolicy" in request.query:
        options = msgspec.structs.replace(options, propagation_policy=request.query["propagationPolicy"])
    return options


def _convert(value: Any) -> DeleteOptions:
    try:
        options = msgspec.convert(value or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"DeleteOptions: {error}") from None
    return options


def _pod_subresource(cluster: Cluster, target: Target, request: Request) -> Answer:
    if request.method != "POST":
        raise errors.method_not_allowed()
    body = _body(request, _OBJECT_TYPES)
    if target.subresource == "binding":
        return Answer(encode(bind(cluster, target, body)), 201)
    options = _convert(body.get("deleteOptions")) if isinstance(body, dict) else DeleteOptions()
    return Answer(encode(evict(cluster, target, body, options)), 201)


def _watch_options(cluster: Cluster, target: Target, request: Request) -> WatchOptions:
    since = number(request.query, "resourceVersion")
    cluster.store.require(since)
    initial = request.flag("sendInitialEvents")
    return WatchOptions(
        resource=target.resource,
        selector=selector_of(target, request.query),
        since=since if since and not initial else None,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial,
        timeout=float(number(request.query, "timeoutSeconds") or 3600),
    )


def _body(request: Request, media_types: tuple[str, ...]) -> Any:
    """The decoded JSON body. Raises 400 or 415."""
    if request.media_type not in media_types:
        raise errors.unsupported_media_type(("application/json",))
    try:
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"the body cannot be read as JSON: {error}") from None


def _object(target: Target, stored: Stored, unknown: UnknownFields | None = None, *, status: int = 200) -> Answer:
    body = type_prefix(target.resource) + shown(target.resource, stored.raw)[1:]
    return Answer(body, status, warnings=unknown.warnings if unknown else ())
