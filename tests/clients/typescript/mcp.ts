// Calls memoir through the TypeScript client of the Model Context Protocol, over HTTP.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

declare const process: { env: Record<string, string | undefined> };

function check(condition: boolean, what: unknown): void {
  if (!condition) throw new Error(`not as expected: ${JSON.stringify(what)}`);
}

const client = new Client({ name: "memoir-check", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(`${process.env["MEMOIR_URL"]}/mcp`)));
const { tools } = await client.listTools();
check(tools.length === 5, tools.map((tool) => tool.name));

const stored = await client.callTool({ name: "remember", arguments: { text: "The ferry leaves from pier nine" } });
check(stored.isError !== true, stored);
const recalled = await client.callTool({ name: "recall", arguments: { query: "Where does the ferry leave from?" } });
check(JSON.stringify(recalled.structuredContent).includes("pier nine"), recalled);
const refused = await client.callTool({ name: "read", arguments: { id: "nothing" } });
check(refused.isError === true, refused);
const { resources } = await client.listResources();
check(resources.length > 0, resources);
await client.close();
console.log("the TypeScript client of MCP works");
