// Calls a running memoir through openapi-fetch, with the types that openapi-typescript generates from
// openapi/openapi.json. MEMOIR_URL names the service; scripts/api-check generates, compiles and runs this.

import createClient from "openapi-fetch";
import type { components, paths } from "memoir-api";

// The parts of Node that browsers do not have.
declare const process: { env: Record<string, string | undefined>; exitCode: number };

type Source = components["schemas"]["SourceResponse"];

const baseUrl = process.env["MEMOIR_URL"];
if (!baseUrl) throw new Error("MEMOIR_URL is not set");
const client = createClient<paths>({ baseUrl });

// A separate space, so that other checks of the same service do not appear in the list.
const space = { "X-Memoir-Space": `typescript-${Math.random().toString(36).slice(2)}` };

function assert(condition: unknown, seen: unknown): asserts condition {
  if (!condition) throw new Error(`not as expected: ${JSON.stringify(seen)}`);
}

function assertEqual<T>(seen: T, expected: T): void {
  assert(JSON.stringify(seen) === JSON.stringify(expected), { seen, expected });
}

/** The one document that create_source has made. */
async function theSource(): Promise<Source> {
  const { data } = await client.GET("/v1/sources", { params: { header: space } });
  const source = data?.items[0];
  assert(source && data.items.length === 1, data);
  return source;
}

// In this order: the later ones use the source that create_source creates.
const checks: Record<string, () => Promise<void>> = {
  async get_info() {
    const { data } = await client.GET("/v1/info");
    assert(data, data);
    assertEqual(data.name, "memoir");
    assert(["sqlite", "postgres", "mysql"].includes(data.database.engine), data.database);
    assert(data.limits.page_size_default <= data.limits.page_size_max, data.limits);
    assert("server" in data.settings, data.settings);
  },

  async count_tokens() {
    const { data } = await client.POST("/v1/tokens/count", { body: { text: "tiktoken is great!", model: "gpt-4o" } });
    assertEqual(data, {
      tokens: 6, estimate: 5, characters: 18, tokenizer: "o200k_base", exact: true, model: "gpt-4o",
    });
  },

  async create_source() {
    const body = { path: "/docs/plan.md", tags: ["design"] };
    const params = { header: { ...space, "Idempotency-Key": "once" } };
    const { data, response } = await client.POST("/v1/sources", { params, body });
    assert(data && response.status === 201, data);
    assertEqual([data.filename, data.path, data.type, data.user_id], ["plan.md", "/docs/plan.md", "md", "default"]);
    assertEqual(data.tags, ["file_ingest", "design"]);
    assertEqual([data.eligible, data.latest_version], [true, 0]);
    assert(!Number.isNaN(Date.parse(data.created_at)), data);
    assertEqual(response.headers.get("location"), `/v1/sources/${data.id}`);
    const again = await client.POST("/v1/sources", { params, body });
    assertEqual(again.data, data);
    const conflict = await client.POST("/v1/sources", { params: { header: space }, body });
    assertEqual([conflict.response.status, conflict.data], [409, undefined]);
  },

  async get_source() {
    const listed = await theSource();
    const path = { id: listed.id };
    const { data, response } = await client.GET("/v1/sources/{id}", { params: { path, header: space } });
    assert(data, response.status);
    assertEqual<unknown>({ ...data, size_bytes: null, helper: null }, listed);
    const etag = response.headers.get("etag");
    assert(etag, [...response.headers]);
    const header = { ...space, "If-None-Match": etag };
    const unchanged = await client.GET("/v1/sources/{id}", { params: { path, header } });
    assertEqual(unchanged.response.status, 304);
  },

  async list_sources() {
    const { data: second } = await client.POST("/v1/sources", {
      params: { header: space },
      body: { filename: "b.txt", user_id: "ada", eligible: false },
    });
    assert(second, second);
    const { data: page } = await client.GET("/v1/sources", { params: { header: space, query: { limit: 1 } } });
    assert(page?.items.length === 1 && page.next_cursor, page);
    const query = { limit: 1, cursor: page.next_cursor };
    const { data: last } = await client.GET("/v1/sources", { params: { header: space, query } });
    assertEqual(last, { items: [{ ...second, size_bytes: null, helper: null }], next_cursor: null, total: 2 });
    for (const query of [{ user_id: "ada" }, { filename: "b.txt" }, { eligible: false }]) {
      const { data: found } = await client.GET("/v1/sources", { params: { header: space, query } });
      assertEqual(found?.items.map((item) => item.id), [second.id]);
    }
    await client.DELETE("/v1/sources/{id}", { params: { path: { id: second.id }, header: space } });
  },

  async update_source() {
    const path = { id: (await theSource()).id };
    const { response } = await client.GET("/v1/sources/{id}", { params: { path, header: space } });
    const etag = response.headers.get("etag");
    assert(etag, [...response.headers]);
    const params = { path, header: { ...space, "If-Match": etag } };
    const body = { tags: ["file_ingest", "draft"], eligible: false };
    const { data } = await client.PATCH("/v1/sources/{id}", { params, body });
    assertEqual([data?.tags, data?.eligible], [["file_ingest", "draft"], false]);
    const stale = await client.PATCH("/v1/sources/{id}", { params, body });
    assertEqual([stale.response.status, stale.error?.code], [412, "precondition_failed"]);
  },

  async delete_source() {
    const path = { id: (await theSource()).id };
    const gone = await client.DELETE("/v1/sources/{id}", { params: { path, header: space } });
    assertEqual(gone.response.status, 200);
    assertEqual(gone.data?.sources, 1);
    const again = await client.DELETE("/v1/sources/{id}", { params: { path, header: space } });
    assertEqual(again.response.status, 404);
  },

  async problem() {
    const path = { id: "00000000-0000-7000-8000-000000000000" };
    const { data, error, response } = await client.GET("/v1/sources/{id}", { params: { path, header: space } });
    assert(response.status === 404 && data === undefined && error, data);
    assertEqual([error.code, error.status, error.type], ["not_found", 404, "urn:memoir:problem:not_found"]);
    assert(error.remediation && error.request_id === response.headers.get("x-request-id"), error);
  },
};

for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok      typescript ${name}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAILED  typescript ${name}\n${error instanceof Error ? error.stack : error}`);
  }
}
