"""What every answer of the governor's own must be: clear, typed and documented."""

import json
import re
from pathlib import Path

DOCUMENTS = Path(__file__).parent.parent.parent / "docs/errors"
# Statuses on which SDKs repeat a call by themselves.
REPEATED = {408, 409, 425, 429} | set(range(500, 600))


def problem(answer, code, status=None):
    """Checks an answer of `httpx` or of the raw client against its code, and returns its body."""
    body = getattr(answer, "content", None)
    body = json.loads(answer.body if body is None else body)
    headers = getattr(answer, "headers", None)
    get = answer.get if headers is None else headers.get
    number = getattr(answer, "status", None) or answer.status_code
    assert body["code"] == code, body
    assert number == body["status"] == (status or number), body
    assert get("content-type") == "application/problem+json"
    assert get("rategov-source") == "governor", "nobody mistakes it for the provider's"
    assert body["title"] and body["detail"], body
    document = re.fullmatch(r"/governor/v1/errors/(RG\d{4})", body["type"])[1]
    text = (DOCUMENTS / f"{document}.md").read_text()
    assert f"`{code}`" in text or code in text, f"{document} does not speak of {code}"
    if get("x-should-retry") == "true":
        assert number in REPEATED, "SDKs that listen are told the same as those that don't"
    return body
