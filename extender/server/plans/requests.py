"""The body of `POST /v1/plan`: manifests, and what else is to change.

It is read in the child process, since a large body takes a while: the server's own process only receives the bytes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from algorithm.suggest import near

#: Bytes of a body.
LARGEST_BODY = 8 << 20
#: Nodes that are drained, cordoned or deleted, objects whose priority changes: of each at most so many.
MOST_CHANGES = 1000
#: Nodes that may be added.
MOST_NODES = 20_000

Format = Literal["json", "markdown", "svg", "dot", "text"]
FORMATS: tuple[Format, ...] = ("json", "markdown", "svg", "dot", "text")
_Name = Annotated[str, StringConstraints(min_length=1, max_length=640)]
_Names = Annotated[list[_Name], Field(max_length=MOST_CHANGES)]
#: Kubernetes has priorities of 32 bits.
_Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class RequestError(ValueError):
    """The request cannot be served. `field` names the field at fault, None if there is none."""

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.field = field


class PlanRequest(BaseModel):
    """What is to happen. Nothing happens: the answer says what would."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    manifests: str = Field("", description="Objects that would be created: YAML or JSON, any number of documents")
    objects: list[dict[str, Any]] = Field(default_factory=list, description="The same as JSON objects")
    namespace: str = Field("default", max_length=63, description="Of objects that name none")
    delete: _Names = Field(
        default_factory=list, description="KIND/NAME or KIND/NAMESPACE/NAME: node/n1, job/train, pod/web-1, gang/big"
    )
    cordon: _Names = Field(default_factory=list, description="Names of nodes that get no further pods")
    drain: _Names = Field(default_factory=list, description="Names of nodes whose pods are evicted")
    add_nodes: int = Field(0, ge=0, le=MOST_NODES, description="How many nodes of `node_shape` are added")
    node_shape: str = Field("", max_length=4096, description="As `waggle plan --node-shape`: cpu=64,memory=256Gi,...")
    priorities: dict[_Name, _Priority] = Field(
        default_factory=dict, max_length=MOST_CHANGES, description="KIND/NAME or KIND/NAMESPACE/NAME: its new priority"
    )
    settings: str | None = Field(None, description="Another configuration of Waggle, a YAML text")
    algorithm: str | None = Field(None, min_length=1, max_length=253, description="Another installed algorithm")
    estimate: bool = Field(False, description="Estimate starts from the run times that pods declare")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="For kube-scheduler's choices among equally good nodes")
    compare: bool = Field(
        False, description="Make a second plan without `delete` and what follows it here, and say what differs"
    )
    graph: bool = Field(False, description="Of the format json: with the graph as SVG")
    format: Format = "json"

    @property
    def has_changes(self) -> bool:
        """Whether more would change than that objects are created."""
        others = (self.delete, self.cordon, self.drain, self.add_nodes, self.priorities)
        return any(others) or self.settings is not None or self.algorithm is not None


def read_request(body: bytes, *, is_yaml: bool, format_: str) -> PlanRequest:
    """Read a body: JSON, or the manifests alone if it is YAML. `format_` "" is the default. Raises RequestError."""
    try:
        if is_yaml:
            request = PlanRequest(manifests=body.decode())
        else:
            request = PlanRequest.model_validate_json(body if body.strip() else b"{}")
    except UnicodeDecodeError as error:
        raise RequestError("body: not UTF-8 text", "body") from error
    except ValidationError as error:
        raise _invalid(error) from error
    if not format_:
        return request
    found = next((each for each in FORMATS if each == format_), None)
    if found is None:
        raise RequestError(f"format: expected one of {', '.join(FORMATS)}{near(format_, FORMATS)}", "format")
    return request.model_copy(update={"format": found})


def objects_text(request: PlanRequest) -> str:
    """The objects of a request as documents of one text."""
    return "\n---\n".join(msgspec.json.encode(each).decode() for each in request.objects)


def _invalid(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    text = first["msg"]
    if first["type"] == "extra_forbidden":
        fields = list(PlanRequest.model_fields)
        text = f"there is no such field; there are: {', '.join(fields)}{near(field, fields)}"
    return RequestError(f"{field or 'body'}: {text}", field or "body")
