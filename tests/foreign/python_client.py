"""The Python client: `python_client.py legacy|auto`. Lists the tools, runs a small session, meets both kinds of error."""

import asyncio
import json
import os
import sys
import uuid

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

PROJECT = os.environ["PROJECT"]
TOOLS = [
    "native_session_continue",
    "native_session_recover",
    "native_session_reply_and_wait",
    "native_session_start",
    "native_session_status",
    "native_session_stop",
]


def ids(state):
    return {name: state[name] for name in ("native_session_id", "lease_id")}


async def wait_for(client, state, wanted):
    for _ in range(20):
        if wanted(state):
            return state
        result = await client.call_tool("native_session_status", {**ids(state), "wait_seconds": 10})
        state = result.structured_content
    raise AssertionError(state)


async def reply(client, state, **content):
    turn = {"turn_id": state["pending_turn"]["turn_id"], "reply_id": str(uuid.uuid4())}
    result = await client.call_tool("native_session_reply_and_wait", {**ids(state), **turn, **content})
    return result.structured_content


async def session(client):
    start = {
        "prompt": "What stands in the read-me?",
        "working_directory": PROJECT,
        "idempotency_key": str(uuid.uuid4()),
        "wait_seconds": 30,
    }
    state = (await client.call_tool("native_session_start", start)).structured_content
    state = await wait_for(client, state, lambda now: now["pending_turn"] is not None)
    read = {"name": "Read", "input": {"file_path": f"{PROJECT}/README.md"}}
    state = await reply(client, state, tool_calls=[read])
    state = await wait_for(client, state, lambda now: now["pending_turn"] and now["pending_turn"]["tool_results"])
    assert "Lantern" in state["pending_turn"]["tool_results"][0]["receipt"]["content"]
    state = await reply(client, state, text="It is about a lantern.")
    state = await wait_for(client, state, lambda now: now["status"] == "idle")
    assert state["last_result"]["text"] == "It is about a lantern."
    await client.call_tool("native_session_stop", {**ids(state), "request_id": str(uuid.uuid4())})


async def errors(client):
    nobody = {"native_session_id": "ns_" + "0" * 32, "lease_id": "lease_" + "0" * 32}
    refused = await client.call_tool("native_session_status", nobody)
    assert refused.is_error and json.loads(refused.content[0].text)["code"] == "unknown_session"
    try:
        await client.call_tool("Bash", {"command": "ls"})
    except Exception as error:  # The class differs between the library's eras.
        assert "-32602" in repr(error) or "tool" in str(error).lower(), repr(error)
    else:
        raise AssertionError("a tool that does not exist was called")


async def main(mode):
    headers = {"X-Gatehouse-Key": os.environ["GATEHOUSE_KEY"]}
    async with httpx2.AsyncClient(headers=headers, timeout=70) as http:
        transport = streamable_http_client(os.environ["GATEHOUSE_URL"], http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=70) as client:
            listed = await client.list_tools()
            assert sorted(tool.name for tool in listed.tools) == TOOLS
            await session(client)
            await errors(client)
    print("story told")


asyncio.run(main(sys.argv[1]))
