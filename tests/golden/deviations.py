"""Where the stand-in knowingly answers otherwise than a real API server, and why. The only such list.

A key is SCENARIO[STEP]; a value is (paths in the answer that may differ, why). A deviation that is no longer one fails
the test as well.
"""

from __future__ import annotations

_TEXT = ("body.message", "body.details.causes")
_WHOLE = ("status", "body")
_CLEARER = "the text says which field is wrong and what was expected; reason, code and status are the same"
_PAGE = "a Status, as every answer here, and not the text `404 page not found`"
_NOT_500 = "a mistake of the client is a 4xx here, so that no client retries it; the real server says 500"

DEVIATIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "pod-invalid[10]": (_WHOLE, _NOT_500),
    "pod-invalid[12]": (_TEXT, _CLEARER),
    "pod-invalid[15]": (_TEXT, _CLEARER),
    "update[3]": (_TEXT, "without the storage's own words (StorageError, key)"),
    "update[8]": (_TEXT, "without the Go dump of the difference"),
    "update[10]": (_TEXT, "without the Go dump of the difference"),
    "patch[5]": (_TEXT, _CLEARER),
    "patch[6]": (_TEXT, _CLEARER),
    "patch[8]": (_TEXT, "without the Go dump of the difference"),
    "patch[10]": (_TEXT, _CLEARER),
    "patch[11]": (_TEXT, _CLEARER),
    "binding[1]": (_TEXT, "without the storage's own words (StorageError, key)"),
    "binding[3]": (_WHOLE, _NOT_500),
    "binding[4]": (_WHOLE, _NOT_500),
    "delete[1]": ((*_TEXT, "body.details.kind"), "one wording for all preconditions"),
    "delete[2]": ((*_TEXT, "body.details.kind"), "one wording for all preconditions"),
    "delete[23]": (_TEXT, _CLEARER),
    "list[9]": (_TEXT, _CLEARER),
    "list[12]": (_TEXT, _CLEARER),
    "list[13]": (_WHOLE, "a negative limit is refused; the real server takes it for none"),
    "list[14]": (_TEXT, _CLEARER),
    "list[15]": (_TEXT, _CLEARER),
    "list[18]": (_TEXT, _CLEARER),
    "watch[13]": (_WHOLE, _NOT_500),
    "strategic[5]": (("body.metadata",), "$patch: replace counts also where there was nothing to replace"),
    "strategic[9]": (_WHOLE, _NOT_500),
    "nodes[4]": (_TEXT, "names spec.taints, and once; the real server says metadata.taints, and twice"),
    "nodes[5]": (_TEXT, "names spec.taints, and once; the real server says metadata.taints, and twice"),
    "quantities[4]": (_TEXT, _CLEARER),
    "quantities[6]": (("body.spec",), "a plus sign is dropped; the real server stores it"),
    "events[3]": (("body.reportingController", "body.reportingInstance"), "empty fields are shown"),
    "budgets[1]": (_TEXT, "without the Go dump of the value"),
    "scale[8]": (_TEXT, "names the selector only; the real server also lists what may be changed"),
    "workloads[2]": (("body.metadata.annotations",), "no DaemonSet controller, hence no template generation"),
    "workloads[3]": (("body.metadata.labels", "body.spec"), "no Job controller, hence no labels to find its pods by"),
    "workloads[4]": (_TEXT, "absent labels are shown as {}, not as null"),
    "small-kinds[0]": (_TEXT, _CLEARER),
    "custom-basic[22]": (_TEXT, _CLEARER),
    "custom-basic[23]": (_TEXT, _CLEARER),
    "custom-basic[24]": (("body.details",), "empty, as of built-in kinds"),
    "custom-basic[42]": (("body",), _PAGE),
    "custom-basic[43]": ((*_TEXT, "body.details.kind"), "one wording for all preconditions"),
    "custom-basic[55]": (("body",), _PAGE),
    "custom-schema[9]": (_TEXT, "says once what is wrong"),
    "custom-schema[12]": (_TEXT, _CLEARER),
    "custom-schema[50]": (_TEXT, _CLEARER),
    "custom-strict[8]": (_TEXT, "the object is shown without what only the real server keeps (managedFields)"),
    "custom-strict[10]": (_WHOLE, _NOT_500),
    "custom-strict[11]": (_TEXT, "the object is shown without what only the real server keeps (managedFields)"),
    "custom-scale[16]": (_WHOLE, _NOT_500),
    "custom-versions[9]": (("body",), _PAGE),
    "custom-cluster[4]": (("body",), _PAGE),
    "custom-definitions[3]": (_TEXT, "spec.versions only, not also what follows from it"),
    "custom-definitions[5]": (_TEXT, "names the versions, without the Go dump of them"),
    "custom-definitions[6]": (_TEXT, "names the versions, without the Go dump of them"),
    "custom-definitions[7]": (_TEXT, "names the versions, without the Go dump of them"),
    "custom-definitions[8]": (_TEXT, "spec.versions only, not also spec.version, which nobody wrote"),
    "custom-definitions[23]": (_TEXT, "Python's words about the pattern"),
    "custom-definitions[36]": (("body",), _PAGE),
}
