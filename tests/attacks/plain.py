"""A plain uvicorn with a FastAPI application that answers /filter with the first node: the usual alternative.

python -m tests.attacks.plain PORT
"""

from __future__ import annotations

import json
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

app = FastAPI()


@app.post("/filter")
async def filter_pods(request: Request) -> dict[str, Any]:
    """The first node."""
    asked = json.loads(await request.body())
    names = asked.get("NodeNames", [])[:1]
    return {"Nodes": None, "NodeNames": names, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="warning")
