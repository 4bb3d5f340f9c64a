"""An MCP server with one tool, for examples/mcp.rs: it tells the time, in steps."""

import json
import sys

TOOL = {"name": "time", "description": "Tells the time.", "inputSchema": {"type": "object", "properties": {}}}


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "clock", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            progress = {"progressToken": token, "progress": 1, "total": 2, "message": "looking at the clock"}
            send({"method": "notifications/progress", "params": progress})
        return {"content": [{"type": "text", "text": "half past nine"}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        unknown = {"error": {"code": -32601, "message": "there is no such method"}}
        send({"id": request["id"], **({"result": result} if result is not None else unknown)})
