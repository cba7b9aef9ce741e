"""Answers to lines that are no requests, which the library drops: whoever sent one might wait for ever."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, RequestId
from pydantic import TypeAdapter, ValidationError

_NO_REQUEST: Final = (
    "not a request: send one object a line, no list of them, with jsonrpc 2.0, id, method and, as an object, params"
)
_ID: Final[TypeAdapter[RequestId]] = TypeAdapter(RequestId)


def refusal(error: Exception) -> SessionMessage | None:
    """Return the answer to a line of which the library says what is wrong; None if it is blank."""
    found: list[Any] = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    inputs = [each["input"] for each in found]
    if not found or found[0]["type"] != "json_invalid":
        return _answer(INVALID_REQUEST, _NO_REQUEST, inputs)
    line: str = inputs[0]
    return _answer(PARSE_ERROR, found[0]["msg"], [_read(line)]) if line.strip() else None


def _read(line: str) -> Any:
    """Return what Python reads in a line, which takes half a surrogate pair for a character; None if it is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _answer(code: int, message: str, inputs: list[Any]) -> SessionMessage:
    """Return an error, with the id of the first of ``inputs`` that has one."""
    found = (each["id"] for each in inputs if isinstance(each, dict) and "id" in each)
    error = ErrorData(code=code, message=message)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=_request_id(next(found, None)), error=error))


def _request_id(value: Any) -> RequestId | None:
    try:
        return _ID.validate_json(json.dumps(value))  # as JSON, since no text with half a pair could be sent back
    except ValidationError:
        return None
