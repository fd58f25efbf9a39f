"""Checks of our own for schemathesis, which loads this file through SCHEMATHESIS_HOOKS."""

import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.specs.openapi.checks import positive_data_acceptance

# Problems that depend on more than the request, so that no schema can foretell them: a cursor that the
# service did not hand out, an ETag that is not the document's, a key that another request has used, a provider that is
# not configured.
UNFORESEEABLE = {"invalid_cursor", "precondition_failed", "idempotency_key_reused", "unknown_model"}

# Rules that the document states in words only: said in JSON Schema, they would turn the types of
# generated clients into unions (the first three) or clutter every string (the last).
IN_WORDS = {
    "give filename or path",
    "must end in the name of a file, of at most 255 characters",
    'must contain "file_ingest": it cannot be removed',
    "must not contain the character U+0000",
    "must not be after to",
}


@schemathesis.check
def valid_data_acceptance(ctx, response, case):
    """`positive_data_acceptance`, which knows statuses only, but with an eye on why a request was refused.

    So a request that fits the schema and is refused for any other reason is still a failure: either the
    service is too strict or the document says too little.
    """
    if response.status_code in (400, 412, 422):
        problem = response.json()
        reasons = {error["message"] for error in problem.get("errors", [])}
        if problem["code"] in UNFORESEEABLE or (reasons and reasons <= IN_WORDS):
            return None
    return positive_data_acceptance(ctx, response, case)


@schemathesis.check
def problem_document(ctx, response, case):
    """Every error is a problem document that agrees with its own response, also where none is documented."""
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
