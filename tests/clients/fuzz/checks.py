"""Our own checks for schemathesis, which loads this file through SCHEMATHESIS_HOOKS."""

import re

import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

# Problems that depend on more than the request, so that no schema can predict them: a cursor that the service did
# not create, an outdated ETag, a key that another request has used, a provider that is not configured.
UNFORESEEABLE = {
    "invalid_cursor", "precondition_failed", "idempotency_key_reused", "unknown_model", "provider_not_configured",
    # A full level, a parent that is a leaf, an impossible date, a file that is not text.
    "category_limit", "max_depth", "not_a_leaf", "invalid_date", "unsupported_file_type",
    # Chunks that do not fit the budget.
    "budget_exceeded", "budget_too_small", "character_budget_not_met", "final_prompt_over_budget",
    # A prompt over a ceiling of its workspace.
    "prompt_over_ceiling",
}

# Rules that the OpenAPI document states only in words: in JSON Schema, they would turn the types of generated clients
# into unions (the first three) or clutter every string (the last).
IN_WORDS = {
    "send `filename` or `path`",
    "must end in a file name of at most 255 characters",
    'must contain "file_ingest": it cannot be removed',
    "must not contain the character U+0000",
    "must not be later than `to`",
    "must be true if no filter is given, because every job would match",
    "send `content` or `messages`",
    "is also the id of another candidate",
    "must be omitted if policy is given",
    "must not be given with a prompt",
    "is required unless external_reply is given",
    "is required if external_reply is given",
    "is required if user_message is given",
    "is required to search memories: name the end user whose memories are searched",
    "filters sources; use it with the scope chunks, sources or both",
    "filters sources; use it with the scope sources or both",
    "must have either source_id or path",
    "matches empty text, so it would redact between all characters",
}

# The same for messages that contain the given value or a limit of the installation.
PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"must (not be empty|have at most|have 1 to \d+ (ASCII )?characters|not contain control|contain a letter)",
        r"must be (1 to \d+ characters|the id of a source|UTF-8 text|a timestamp|a valid date)",
        r"must be (absolute|from \d+ to \d+|a (whole )?number (of seconds )?from|greater than|less than)",
        r"there is no category|a category on level 1|level \d+ needs a parent|is on level",
        r"is required (if|unless|to) |send either `|, not both|is allowed only|is required; use|has \d+ tokens|the whole paragraph has",
        r"at most \d+|does not match the source|chunk_min_tokens|leaves no room",
        r"applies only to|cannot be enforced|must not be set|the request body|must be set|missing field",
        # A form has only two parts; 98.0 is not a whole number.
        r"unknown field; a form has|invalid type: floating point",
        r"the name of the space to delete",
        # Ranges that depend on the settings of a space, terms of its vocabulary, what a thread contains.
        r"must be between \S+ and \S+|is not a (category|topic|message type|entity type) of the vocabulary|must be a UUID",
        r"messages belong to a thread|is not a model of this installation|appears twice",
        r"without line breaks and control characters|on one line, without spaces around them",
        r"there is nothing to summarise|is not a valid regular expression|line \d+ must",
        r"must be created_at or name if as_of|only for a single message|a name and a version|must be the id of a thread",
    )
]


@schemathesis.serializer("application/x-ndjson")
def json_lines(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def in_words(reason):
    return reason in IN_WORDS or any(pattern.search(reason) for pattern in PATTERNS)


@schemathesis.check
def valid_data_acceptance(ctx, response, case):
    """`positive_data_acceptance`, which checks only statuses, extended by the reason of a rejection.

    A request that matches the schema and is rejected for any other reason is still a failure: either the service is
    too strict or the OpenAPI document is incomplete.
    """
    if response.status_code == 410 and response.json()["code"] == "erased":
        return None
    if response.status_code in (400, 412, 415, 422):
        problem = response.json()
        reasons = {error["message"] for error in problem.get("errors", [])}
        # The metadata of a form and the lines of JSON Lines are JSON inside a string, which a schema cannot describe.
        opaque = (case.media_type or "").startswith(("multipart/", "application/x-ndjson"))
        if opaque or problem["code"] in UNFORESEEABLE or (reasons and all(map(in_words, reasons))):
            return None
    return positive_data_acceptance(ctx, response, case)


@schemathesis.check
def invalid_data_rejection(ctx, response, case):
    """`negative_data_rejection`, except for a rule that the fuzzer takes from an error and then expects everywhere:
    `filters.user_id` is required only to search memories.
    """
    filters = case.body.get("filters") if isinstance(case.body, dict) else None
    if case.operation.label == "POST /v1/search" and isinstance(filters, dict) and filters.get("user_id") is None:
        return None
    return negative_data_rejection(ctx, response, case)


@schemathesis.check
def problem_document(ctx, response, case):
    """Every error is a problem document that matches its response, even if it is not documented."""
    if response.status_code < 400 or case.method.upper() == "HEAD":
        return
    media_type = response.headers.get("content-type", [""])[0]
    problem = response.json() if media_type == "application/problem+json" else {}
    wrong = [
        name
        for name, seen, expected in (
            ("content-type", media_type, "application/problem+json"),
            ("status", problem.get("status"), response.status_code),
            ("type", problem.get("type"), f"urn:memoir:problem:{problem.get('code')}"),
            ("request_id", [problem.get("request_id")], response.headers.get("x-request-id")),
            ("remediation", bool(problem.get("remediation")), True),
        )
        if seen != expected
    ]
    if wrong:
        raise Failure(
            operation=case.operation.label,
            title="Not the problem document it should be",
            message=f"Wrong: {', '.join(wrong)}",
        )
