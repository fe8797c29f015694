"""Reports as text, JSON and JUnit's XML."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

import msgspec

from algorithm.conformance.catalogue import BY_NAME, CHECKS
from algorithm.conformance.printed import as_test
from algorithm.conformance.results import BAD, Report, Result
from algorithm.registry import API_VERSION

_MARKS = {
    "passed": "ok  ",
    "warned": "slow",
    "failed": "FAIL",
    "not-applicable": "-   ",
    "excused": "out ",
    "unexpected": "FAIL",
    "not-run": "?   ",
}


def as_text(report: Report, *, verbose: bool = False) -> str:
    """The report for people: each check in a line, and each failure with a test that shows it."""
    if report.unusable:
        return report.unusable
    lives = "1 life" if report.lives == 1 else f"{report.lives} lives"
    lines = [f"{report.plugin}, contract version {report.contract}: {lives}, {report.seconds:.0f} s"]
    for result in report.results:
        lines.append(_line(result))
    for result in report.results:
        if result.status in BAD and result.calls:
            lines += ["", f"--- {result.check}: save this as a test", "", test_of(report, result)]
    return "\n".join([*lines, "", _in_short(report)])


def _in_short(report: Report) -> str:
    passed = sum(result.status in ("passed", "warned") for result in report.results)
    not_run = sum(result.status == "not-run" for result in report.results)
    bad = [result.check for result in report.results if result.status in BAD and result.status != "not-run"]
    skipped = len(report.results) - passed - not_run - len(bad)
    said = f"{passed} check{'s'[: passed != 1]} passed"
    said += f", {skipped} do not apply or are opted out" if skipped else ""
    said += f", {not_run} did not run" if not_run else ""
    if bad:
        return f"{said}, {len(bad)} failed: {', '.join(bad)}"
    return said if not_run else f"{said}: it conforms"


def _line(result: Result) -> str:
    is_said = result.text and (result.status != "passed" or result.check in ("decides-in-time",))
    promise = BY_NAME[result.check].promise
    if result.status in BAD:
        return (
            f"{_MARKS[result.status]} {result.check}\n       promise: {promise}\n       {result.status}: {result.text}"
        )
    return f"{_MARKS[result.status]} {result.check}{': ' + result.text if is_said else ''}"


def test_of(report: Report, result: Result) -> str:
    """The test that fails for this result."""
    return as_test(result, report.plugin, report.settings, report.world)


def as_json(report: Report) -> str:
    """The report for programs, with the calls of each failure and the test that they make."""
    plain = msgspec.to_builtins(report)
    for each, result in zip(plain["results"], report.results, strict=True):
        each["promise"] = BY_NAME[result.check].promise
        if result.status in BAD:
            each["test"] = test_of(report, result)
    plain["conforms"] = report.conforms
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()


def as_junit(report: Report) -> str:
    """The report as JUnit's XML: one suite, one case a check."""
    failures = sum(result.status in BAD for result in report.results)
    skipped = sum(result.status in ("not-applicable", "excused") for result in report.results)
    counted = f'tests="{len(report.results)}" failures="{failures}" skipped="{skipped}" time="{report.seconds:.3f}"'
    name = quoteattr(f"conformance {report.plugin}")
    cases = "\n".join(_case(report, result) for result in report.results)
    if report.unusable:
        counted = 'tests="1" failures="0" errors="1" skipped="0" time="0"'
        cases = f'  <testcase classname={name} name="usable"><error message={_quoted(report.unusable)}/></testcase>'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuite name={name} {counted}>\n{cases}\n</testsuite>'


def _case(report: Report, result: Result) -> str:
    begin = f'  <testcase classname={quoteattr(report.plugin)} name="{result.check}" time="{result.seconds:.3f}"'
    if result.status in BAD:
        test = _without_controls(test_of(report, result))
        return f"{begin}><failure message={_quoted(result.text)}>{escape(test)}</failure></testcase>"
    if result.status in ("not-applicable", "excused"):
        return f"{begin}><skipped message={_quoted(result.text)}/></testcase>"
    return f"{begin}/>"


def _quoted(text: str) -> str:
    return quoteattr(_without_controls(text))


def _without_controls(text: str) -> str:
    """XML 1.0 cannot have them."""
    return "".join(char if char in "\n\t" or char >= " " else "?" for char in text)


def listed() -> str:
    """All checks: their names, and what each promises."""
    width = max(len(check.name) for check in CHECKS)
    lines = [f"contract version {API_VERSION}, {len(CHECKS)} checks"]
    group = ""
    for check in CHECKS:
        if check.group != group:
            group = check.group
            lines += ["", group]
        needs = f" (if it has `{check.ability}`)" if check.ability else ""
        lines.append(f"  {check.name:{width}}  {check.promise}{needs}")
    return "\n".join(lines)
