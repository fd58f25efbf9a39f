"""Calls a running memoir through the client that openapi-python-client generates from openapi/openapi.json.

MEMOIR_URL names the service. The generated package `memoir_client` must be importable; scripts/api-check
generates it and sets PYTHONPATH.
"""

import os
import sys
import traceback
import uuid
from datetime import datetime

from memoir_client import Client
from memoir_client.api.ingestions import create_ingestion_batch
from memoir_client.api.sources import create_source, delete_source, get_source, list_sources, update_source
from memoir_client.api.system import get_info
from memoir_client.api.tokens import count_tokens
from memoir_client.models import (
    CountTokensRequest,
    CountTokensResponse,
    CreateIngestionRequest,
    CreateSourceRequest,
    InfoResponse,
    IngestionBatchRequest,
    IngestionBatchResponse,
    Problem,
    SourceListResponse,
    SourceResponse,
    UpdateSourceRequest,
)
from memoir_client.types import File

# Otherwise a status that the OpenAPI document does not list would be returned as None, which is easy to overlook.
client = Client(base_url=os.environ["MEMOIR_URL"], raise_on_unexpected_status=True)
# A separate space, so that other checks of the same service do not appear in the list.
space = f"python-{uuid.uuid4().hex[:12]}"


def check_info():
    info = get_info.sync(client=client)
    assert isinstance(info, InfoResponse), info
    assert info.name == "memoir", info
    assert info.database.engine in ("sqlite", "postgres", "mysql"), info
    assert info.limits.page_size_default <= info.limits.page_size_max, info
    assert "server" in info.settings, info  # free-form: the sections of the settings


def check_count_tokens():
    counted = count_tokens.sync(client=client, body=CountTokensRequest(text="tiktoken is great!", model="gpt-4o"))
    assert isinstance(counted, CountTokensResponse), counted
    assert (counted.tokens, counted.estimate, counted.characters) == (6, 5, 18), counted
    assert (counted.tokenizer, counted.exact, counted.model) == ("o200k_base", True, "gpt-4o"), counted
    # Without a model: the field is omitted from the request and null in the response.
    counted = count_tokens.sync(client=client, body=CountTokensRequest(text=""))
    assert isinstance(counted, CountTokensResponse), counted
    assert (counted.tokens, counted.exact, counted.model) == (0, False, None), counted


def check_create_source():
    body = CreateSourceRequest(path="/docs/plan.md", tags=["design"])
    answer = create_source.sync_detailed(client=client, body=body, idempotency_key="once", x_memoir_space=space)
    assert answer.status_code == 201, answer
    source = answer.parsed
    assert isinstance(source, SourceResponse), answer
    assert (source.filename, source.path, source.type_) == ("plan.md", "/docs/plan.md", "md"), source
    assert (source.user_id, source.kind, source.latest_version) == ("default", "file_ingest", 0), source
    assert (source.tags, source.eligible) == (["file_ingest", "design"], True), source
    assert isinstance(source.created_at, datetime) and source.created_at.tzinfo is not None, source
    assert answer.headers["location"] == f"/v1/sources/{source.id}", answer.headers
    again = create_source.sync(client=client, body=body, idempotency_key="once", x_memoir_space=space)
    assert again == source, "the same Idempotency-Key gave another answer"
    conflict = create_source.sync_detailed(client=client, body=body, x_memoir_space=space)
    assert conflict.status_code == 409 and isinstance(conflict.parsed, Problem), conflict


def the_source():
    """The only source, created by check_create_source."""
    page = list_sources.sync(client=client, x_memoir_space=space)
    assert isinstance(page, SourceListResponse) and len(page.items) == 1, page
    return page.items[0]


def without_details(listed):
    """A listed source without the fields that only lists have."""
    fields = listed.to_dict()
    assert (fields.pop("size_bytes"), fields.pop("helper")) == (None, None), listed
    return fields


def check_get_source():
    listed = the_source()
    answer = get_source.sync_detailed(listed.id, client=client, x_memoir_space=space)
    assert isinstance(answer.parsed, SourceResponse), answer
    assert answer.parsed.to_dict() == without_details(listed), answer
    unchanged = get_source.sync_detailed(
        listed.id, client=client, if_none_match=answer.headers["etag"], x_memoir_space=space
    )
    assert unchanged.status_code == 304 and unchanged.parsed is None, unchanged


def check_list_sources():
    second = create_source.sync(
        client=client, body=CreateSourceRequest(filename="b.txt", user_id="ada", eligible=False), x_memoir_space=space
    )
    assert isinstance(second, SourceResponse), second
    first_page = list_sources.sync(client=client, limit=1, x_memoir_space=space)
    assert isinstance(first_page, SourceListResponse) and len(first_page.items) == 1, first_page
    assert isinstance(first_page.next_cursor, str), first_page
    last_page = list_sources.sync(client=client, limit=1, cursor=first_page.next_cursor, x_memoir_space=space)
    assert isinstance(last_page, SourceListResponse), last_page
    assert [without_details(item) for item in last_page.items] == [second.to_dict()], last_page
    assert last_page.next_cursor is None, last_page
    for found in (
        list_sources.sync(client=client, user_id="ada", x_memoir_space=space),
        list_sources.sync(client=client, filename="b.txt", x_memoir_space=space),
        list_sources.sync(client=client, eligible=False, x_memoir_space=space),
    ):
        assert isinstance(found, SourceListResponse), found
        assert [item.id for item in found.items] == [second.id], found
    elsewhere = list_sources.sync(client=client, x_memoir_space=f"{space}-other")
    assert isinstance(elsewhere, SourceListResponse) and elsewhere.items == [], elsewhere
    delete_source.sync_detailed(second.id, client=client, x_memoir_space=space)


def check_update_source():
    before = get_source.sync_detailed(the_source().id, client=client, x_memoir_space=space)
    assert isinstance(before.parsed, SourceResponse), before
    seen = before.headers["etag"]
    body = UpdateSourceRequest(tags=["file_ingest", "draft"], eligible=False)
    changed = update_source.sync(before.parsed.id, client=client, body=body, if_match=seen, x_memoir_space=space)
    assert isinstance(changed, SourceResponse), changed
    assert (changed.tags, changed.eligible) == (["file_ingest", "draft"], False), changed
    assert changed.updated_at > changed.created_at, changed
    stale = update_source.sync_detailed(
        changed.id, client=client, body=body, if_match=seen, x_memoir_space=space
    )
    assert stale.status_code == 412 and isinstance(stale.parsed, Problem), stale
    assert stale.parsed.code == "precondition_failed", stale
    # Omitted fields stay unchanged.
    changed = update_source.sync(
        changed.id, client=client, body=UpdateSourceRequest(eligible=True), x_memoir_space=space
    )
    assert isinstance(changed, SourceResponse), changed
    assert (changed.tags, changed.eligible) == (["file_ingest", "draft"], True), changed


def check_delete_source():
    source = the_source()
    gone = delete_source.sync_detailed(source.id, client=client, x_memoir_space=space)
    assert gone.status_code == 200 and gone.parsed.sources == 1, gone
    again = delete_source.sync_detailed(source.id, client=client, x_memoir_space=space)
    assert again.status_code == 404, again


def check_ingest_batch():
    items = [CreateIngestionRequest(text="The lighthouse was built in 1843."), CreateIngestionRequest(text="Ice.")]
    lines = b'{"text": "The harbour freezes."}\n{"text": "Ice."}\n'
    for body in (IngestionBatchRequest(items=items), File(payload=lines)):
        queued = create_ingestion_batch.sync(client=client, body=body, x_memoir_space=f"{space}-batch")
        assert isinstance(queued, IngestionBatchResponse), queued
        assert [job.index for job in queued.jobs] == [0, 1], queued
    refused = create_ingestion_batch.sync(client=client, body=File(payload=b'{"text": ""}'), x_memoir_space=space)
    assert isinstance(refused, Problem) and refused.errors, refused
    assert refused.errors[0].field == "items[0].text", refused


def check_problem():
    answer = get_source.sync_detailed(str(uuid.uuid4()), client=client, x_memoir_space=space)
    problem = answer.parsed
    assert answer.status_code == 404 and isinstance(problem, Problem), answer
    assert (problem.code, problem.status, problem.type_) == ("not_found", 404, "urn:memoir:problem:not_found"), problem
    assert problem.remediation and problem.request_id == answer.headers["x-request-id"], problem
    refused = create_source.sync_detailed(client=client, body=CreateSourceRequest(path="relative"), x_memoir_space=space)
    problem = refused.parsed
    assert refused.status_code == 422 and isinstance(problem, Problem) and problem.errors, refused
    assert problem.errors[0].field == "path", problem


# In this order: the later ones use the source that check_create_source creates.
CHECKS = [
    check_info,
    check_count_tokens,
    check_create_source,
    check_get_source,
    check_list_sources,
    check_update_source,
    check_delete_source,
    check_ingest_batch,
    check_problem,
]

failed = 0
for check in CHECKS:
    name = check.__name__.removeprefix("check_")
    try:
        check()
        print(f"ok      python {name}")
    except Exception:
        failed += 1
        print(f"FAILED  python {name}\n{traceback.format_exc()}")
sys.exit(1 if failed else 0)
