"""A program with E2B's own package, as its documentation shows it. Run in the package's Python.

E2B_API_URL, E2B_API_KEY: as the package has them. Prints one line of JSON: what it saw.
"""

import asyncio
import json

from e2b import AsyncSandbox, Sandbox, SandboxQuery
from e2b.exceptions import SandboxException, SandboxNotFoundException


def main() -> dict[str, object]:
    seen: dict[str, object] = {}
    sandbox = Sandbox.create(template="warm", timeout=100, metadata={"user": "a b&c"})
    info = sandbox.get_info()
    seen["created"] = [info.sandbox_id == sandbox.sandbox_id, info.template_id, info.metadata, info.state.value]
    first = info.end_at
    sandbox.set_timeout(300)
    seen["later"] = (sandbox.get_info().end_at - first).total_seconds()
    sandbox.set_timeout(20)
    seen["earlier"] = (sandbox.get_info().end_at - first).total_seconds()
    again = Sandbox.connect(sandbox.sandbox_id, timeout=200)
    seen["connected"] = again.sandbox_id == sandbox.sandbox_id
    others = [Sandbox.create(template="default/warm") for _ in range(2)]
    pages = Sandbox.list(limit=2)
    listed, sizes = [], []
    while pages.has_next:
        page = [each.sandbox_id for each in pages.next_items()]
        listed += page
        sizes.append(len(page))
    seen["pages"] = sizes
    seen["listed"] = sorted(listed) == sorted(each.sandbox_id for each in [sandbox, *others])
    found = Sandbox.list(query=SandboxQuery(metadata={"user": "a b&c"})).next_items()
    seen["found"] = [each.sandbox_id == sandbox.sandbox_id for each in found]
    seen["killed"] = [each.kill() for each in [sandbox, *others]] + [sandbox.kill()]
    for name, wrong in {
        "gone": sandbox.get_info,
        "template": lambda: Sandbox.create(template="wram"),
        "environment": lambda: Sandbox.create(template="warm", envs={"A": "b"}),
        "pause": lambda: Sandbox.create(template="warm").pause(),
    }.items():
        try:
            wrong()
        except (SandboxException, SandboxNotFoundException) as error:
            seen[name] = f"{type(error).__name__}: {error}"
    return seen


async def later() -> list[object]:
    async with await AsyncSandbox.create(template="warm", timeout=60) as sandbox:
        info = await sandbox.get_info()
        return [info.sandbox_id == sandbox.sandbox_id, info.state.value]


if __name__ == "__main__":
    print(json.dumps({**main(), "async": asyncio.run(later())}))
