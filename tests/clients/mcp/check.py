"""Calls memoir through the Python SDK of the Model Context Protocol: over HTTP in both generations of the protocol, and
over standard input and output with a store of its own.

    MEMOIR_URL=http://127.0.0.1:8080 MEMOIR_BIN=target/debug/memoir check.py
"""

import os
import tempfile
from pathlib import Path

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

URL = os.environ["MEMOIR_URL"]
BINARY = os.environ["MEMOIR_BIN"]
NOTE = "# Lighthouse\n\nThe lighthouse of Skerry was built in 1844 by Alan Stevenson.\n"


async def use(client, name):
    """What an agent does: store, recall, ask, read."""
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["remember", "recall", "ask", "read", "ingest"], tools
    assert all(tool.output_schema for tool in tools)

    stored = await client.call_tool("remember", {"text": f"The {name} of the harbour is painted green"})
    assert not stored.is_error and stored.structured_content["kind"] == "fact", stored
    recalled = await client.call_tool("recall", {"query": f"Which colour has the {name} of the harbour?"})
    assert "green" in recalled.structured_content["text"], recalled
    assert recalled.content[0].text == recalled.structured_content["text"]

    steps = []

    async def progress(done, total, message):
        steps.append((done, total, message))

    ingested = await client.call_tool(
        "ingest", {"text": NOTE, "filename": f"lighthouse-{name}.md"}, progress_callback=progress
    )
    assert ingested.structured_content["state"] == "succeeded", ingested
    answered = await client.call_tool("ask", {"question": "Who built the lighthouse of Skerry?"})
    assert "Stevenson" in answered.structured_content["answer"], answered
    source = ingested.structured_content["source_id"]
    read = await client.call_tool("read", {"id": source})
    assert read.structured_content["text"] == NOTE, read

    wrong = await client.call_tool("read", {"id": "nothing"})
    assert wrong.is_error and "nothing has this id" in wrong.content[0].text, wrong

    resources = (await client.list_resources()).resources
    assert any(source in str(resource.uri) for resource in resources), resources
    contents = (await client.read_resource(f"memoir://sources/{source}")).contents
    assert contents[0].text == NOTE, contents
    prompt = await client.get_prompt("compose", {"task": "Describe the lighthouse"})
    assert "Describe the lighthouse" in prompt.messages[0].content.text, prompt
    print(f"{name}: {client.protocol_version}, {len(steps)} steps told")


async def main():
    for mode in ["legacy", "2026-07-28", "auto"]:
        async with Client(f"{URL}/mcp", mode=mode) as client:
            await use(client, f"bollard-{mode}")

    with tempfile.TemporaryDirectory() as folder:
        # Nothing listens at that address, so it keeps a store of its own.
        environment = {"XDG_DATA_HOME": folder, "MEMOIR__SERVER__LISTEN": "127.0.0.1:9"}
        server = StdioServerParameters(command=BINARY, args=["mcp"], env=environment, cwd=folder)
        for mode in ["legacy", "auto"]:
            async with Client(stdio_client(server), mode=mode) as client:
                await use(client, f"crane-{mode}")
        assert (Path(folder) / "memoir" / "memoir.db").exists()


anyio.run(main)
