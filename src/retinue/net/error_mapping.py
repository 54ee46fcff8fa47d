"""Maps the errors of engines to exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .._internal.foreign_text import make_well_formed
from ..errors import ModelError, ModelNotFound, ModelRefused, ModelUnavailable, NotDone, ToolError, WindowExceeded
from .retry import parse_retry_after

_CODES = "context_length_exceeded|exceed_context_size|model_max_prompt_tokens_exceeded|tokens_limit_reached"
_PHRASES = re.compile(  # which say by themselves that the prompt is too long
    rf"{_CODES}|prompt (?:is )?too long|prompt 超长|too many (?:input |prompt )?tokens"
    r"(?! per |, please wait)|range of input length|request exceeds the maximum (?:size|allowed(?! nesting))"
    r"|reduce (?:the length of |your )(?:the |your )?(?:message|prompt|input)|must be reduced in order"
    r"|provide a shorter|string_above_max_length|inputs. (?:tokens|must have less)"
    r"|maximum (?:context|model|prompt|input) length",
    re.IGNORECASE,
)
_LENGTH = re.compile(
    r"context[ _]?(?:length|size|window|limit)"
    r"|(?:model|prompt|inputs?|sequence)(?: allowed)?[ _](?:length|size|tokens?)\b"
    r"|(?:max|model|prompt|token) (?:length|limit)|token count"
    r"|(?:input|prompt|request)s? (?:is |are |body |size )?too\b"
    r"|number of (?:input )?tokens|payload size|tokens in (?:the |your )?(?:prompt|messages)|\bprompt contains",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(
    r"exceed|overflow|too (?:long|large|many)|(?:long|larg|great)er than|more than|\bonly\b|maximum|at most|up to|<="
    r"|reached|\bfull\b",
    re.IGNORECASE,
)
_OF_OTHER_LIMITS = re.compile(
    r"(?:at most \d+|number of) (?:completion|output) tokens"
    r"|max_(?:completion_|output_)?tokens.{0,3}(?: is| value|:| must| >)"
    r"|maximum tokens you requested|per.(?:minute|min\b|day|hour|second)|rate.?limit|quota",
    re.IGNORECASE,
)
_OUTPUT = r"max_(?:completion_|output_|new_)?tokens\b"
_OUTPUT_BESIDE = re.compile(r"input length and `?max_tokens`? exceed context limit: (\d+) \+ \d+ > (\d+)")
_LEAST_OUTPUT = 1024  # tokens of a reply for which the prompt need not be shortened
_OUTPUT_LIMITS = (  # the number is how many tokens a reply may have
    re.compile(rf"{_OUTPUT}\W{{0,3}} ?:? ?\d+ > (\d+)"),
    re.compile(r"at most (\d+) (?:completion|output) tokens"),
    re.compile(rf"{_OUTPUT}.{{0,40}}?\[\d+, ?(\d+)\]"),
    re.compile(rf"{_OUTPUT}.{{0,60}}?(?:less than or equal to|<=|at most|maximum (?:value )?(?:is|of)|up to) \W?(\d+)"),
    re.compile(r"maximum tokens you requested exceeds the model limit of (\d+)"),
)
_BELOW = re.compile(r"max_?output_?tokens value of \d+ but .{0,60} to (\d+) \(exclusive\)", re.IGNORECASE)  # Gemini
_RETRY_DELAY = re.compile(r'"retryDelay": ?"(\d+(?:\.\d+)?)s"')  # Google's
_MESSAGES = ("message", "Message", "detail", "error", "msg", "error_msg", "status_msg")
_UNWANTED = re.compile(
    r"support|unrecogni[sz]ed|unknown|unexpected|permitted|not allowed|deprecated|extra|invalid|only the default"
    r"|unavailable|not (?:currently )?available",
    re.IGNORECASE,
)
_MISSED = re.compile(r"\bmissing\b|passed back", re.IGNORECASE)
_BY_WORDS = {"include": "encrypted content is not supported", "reasoning.summary": "to generate reasoning summaries"}
_STATUS = {"invalid_request_error": 400, "request_too_large": 413}
_PASSING = re.compile(r"Throttling|NotReady|ServiceUnavailable|ModelTimeout|ModelError|ModelStreamError")  # of AWS
_NO_MODEL = re.compile(r"model_not_found|model_not_supported|invalid_model|DeploymentNotFound")
_NO_MODEL_WORDS = re.compile(r"^Model Not Exist|is not a valid model ID|^模型不存在")  # of DeepSeek, OpenRouter, Z.ai
_REFUSALS = (
    *("invalid_", "authentication", "permission", "not_found", "request_too_large", "billing", "content_filter"),
    *("image_", "unsupported_", "empty_image", "failed_to_download", "bio_policy", "misalignment", "data_residency"),
)


def make_status_error(
    where: str, status: int, text: str, wait: str | None, *, keyed: bool = True, kind: str = ""
) -> ModelError:
    """Return the error for a response with this status and body. `wait`: its `Retry-After`; `keyed`: a key was sent;
    `kind`: the type of the error, if it is in a header."""
    try:
        words, mark = _read_parts(json.loads(text))
    except (ValueError, RecursionError):
        words, mark = " ".join(text.split())[:200] or "(no message)", ""
    message = f"{where} answered {status}: {words}"
    if status in (401, 403):
        hint = "is the API key right?" if keyed or status == 403 else "no key was given: pass api_key=…"
        return ModelRefused(f"{message} ({hint})")
    if _is_too_long(message, mark):
        return WindowExceeded(message)
    if (status == 404 and re.search(r"\bmodels?\b", words, re.IGNORECASE)) or (
        status in (400, 404) and (_NO_MODEL.search(mark) or _NO_MODEL_WORDS.search(words))
    ):
        return ModelNotFound(message)
    passes = status in (408, 425, 429) or status >= 500 or _PASSING.search(kind)
    if (passes and "insufficient_quota" not in mark) or "tool_use_failed" in mark:  # a call that Groq could not read
        delay = _RETRY_DELAY.search(text)
        return ModelUnavailable(message, parse_retry_after(wait or (delay[1] if delay else None)))
    return ModelRefused(message)


def with_error_code(error: ModelError, status: int | None) -> ModelError:
    """Set the `code` for this status on `error`, if it is more specific than the error's class."""
    if isinstance(error, ModelUnavailable) and status == 429:
        error.code = "rate_limit_exceeded"
    if type(error) is ModelRefused and status in (400, 413, 422):
        error.code = "invalid_request"
    return error


def make_stream_error(error: Any, redacted: Callable[[str], str]) -> ModelError:
    """Return the error for an error object found in place of a reply, or of a part of it."""
    message, mark = _read_parts({"error": error}, redacted)
    given = [error.get(key) for key in ("code", "status", "status_code")] if isinstance(error, Mapping) else []
    found = [str(one) for one in given if isinstance(one, int) or re.fullmatch(r"[45]\d\d", str(one))]
    code = int(found[0]) if found else None
    message = f"the engine reports: {message:.300}"
    if _is_too_long(message, mark):
        return WindowExceeded(message)
    if mark.startswith(_REFUSALS) if code is None else 400 <= code < 500 and code != 429:
        return with_error_code(ModelRefused(message), code or _STATUS.get(mark.split(" ")[0]))
    return with_error_code(ModelUnavailable(message), 429 if code == 429 or "rate_limit" in mark else None)


def _is_too_long(message: str, mark: str) -> bool:
    """Return whether an error says, in any vendor's words, that the prompt is too long.

    It does not if the reply would be too long, or if too much was asked for within a time.
    """
    if _PHRASES.search(f"{mark} {message}"):
        return True
    too_long = _LENGTH.search(message) and _TOO_MUCH.search(message) and not _OF_OTHER_LIMITS.search(message)
    return bool(too_long)


def find_output_limit(refused: ModelRefused) -> int | None:
    """Return how many tokens a reply may have, if a refusal says that more were asked for."""
    if found := _OUTPUT_BESIDE.search(str(refused)):
        left = int(found[2]) - int(found[1])
        return left if left >= _LEAST_OUTPUT else None
    if isinstance(refused, WindowExceeded):
        return None
    if below := _BELOW.search(str(refused)):
        return int(below[1]) - 1
    return next((int(found[1]) for limit in _OUTPUT_LIMITS if (found := limit.search(str(refused)))), None)


def is_about_parameter(refused: ModelRefused, parameter: str) -> bool:
    """Return whether the refusal is about this parameter, and not about one in it or one of the same name elsewhere.
    xAI writes names of several words in one."""
    said = str(refused)
    if (words := _BY_WORDS.get(parameter)) and words in said.lower():
        return True
    first, *others = parameter.split("_")
    name = f"(?:{re.escape(parameter)}|{re.escape(first + ''.join(map(str.capitalize, others)))})"
    begin = r"(?:(?<![\w'\"`.\]])|(?<=\bbody\.)|(?<=\brequest\.))"
    if re.search(rf"(?:['\"`]|(?<=['\"`]body\.)){name}['\"`.]|{begin}{name}(\.\w+)*:", said):
        return True
    return re.search(rf"{begin}{name}(?![\w'\"`])", said) is not None and _UNWANTED.search(said) is not None


def find_refused_field(refused: ModelRefused, names: Collection[str]) -> tuple[str, bool] | None:
    """Return which of these fields of an assistant's turn a refusal is about, and whether the server misses it instead
    of rejecting it."""
    said = str(refused)
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<!\w){name}(?!\w)", said):
            if _MISSED.search(said):
                return name, True
            if re.search(r"message|assistant", said) and _UNWANTED.search(said):
                return name, False
    return None


def _read_parts(body: Any, redacted: Callable[[str], str] = str) -> tuple[str, str]:
    """Return the message and the type or code of an error, in any common format."""
    if isinstance(body, list) and len(body) == 1:  # Gemini
        body = body[0]
    error = (body.get("error") or body.get("errors") or body) if isinstance(body, dict) else body
    if isinstance(error, list) and len(error) == 1:  # Cloudflare
        error = error[0]
    if not isinstance(error, Mapping) and isinstance(body, dict) and isinstance(body.get("message"), str):
        error = body  # whose `error` is only a status' name, or a flag
    if isinstance(error, Mapping):
        message = next((error[key] for key in _MESSAGES if error.get(key)), "(no message)")
        mark = " ".join(str(error[key]) for key in ("type", "code") if error.get(key))
        if isinstance(within := error.get("metadata"), Mapping) and within.get("raw"):  # OpenRouter
            message = f"{message}: {within['raw']}"
        if isinstance(within := error.get("innererror") or error.get("inner_error"), Mapping):  # Azure
            message = f"{message} {_describe_filter(within)}"
        parameter = error.get("param")  # OpenAI
        if isinstance(parameter, str) and parameter and f"'{parameter}'" not in str(message):
            message = f"{message} (parameter: '{parameter}')"
    else:
        message, mark = error, str(body.get("error_type", "")) if isinstance(body, dict) else ""  # TGI
    return " ".join(redacted(make_well_formed(str(message))).split())[:500], mark


def _describe_filter(error: Mapping[str, Any]) -> str:
    """Return what Azure's content filter found in a prompt (https://github.com/BerriAI/litellm/pull/16231)."""
    found = error.get("content_filter_result") or error.get("content_filter_results")
    marked = found.items() if isinstance(found, Mapping) else ()
    kinds = [kind for kind, one in marked if isinstance(one, Mapping) and one.get("filtered") is True]
    return f"(filtered: {', '.join(kinds)})" if kinds else ""


def call_failure(message: str, *, sent: bool) -> ToolError:
    """Return the error of a failed call of another server: an HTTP endpoint, an MCP server, an agent elsewhere. `sent`:
    anything of it may have reached the server.

    A call is not done if nothing of it was sent: an own check refused it, there is no such address, or no
    connection could be made. Whatever a server *answers*, with an HTTP status or a JSON-RPC error, says nothing
    about what happened before the answer. A handler raises after it has acted, a gateway passes on the 4xx of the
    second of two services, and a tool that pays and then asks its client something gets the client's own refusal
    and returns that as its error. A connection that breaks says nothing either. So each of these leaves the outcome
    of a `once` call unknown, and an equal call waits for a person; a corrected input is another call, and goes on.

    There is one exception, which its protocol states and `retinue.mcp.session` verifies: a server that answers 404
    to each request of an MCP session does not know the session, and has done nothing in it.

    Who knows better of a tool says so: `effects="idempotent"` or `"read"`, or `not_done`.
    """
    return ToolError(message) if sent else NotDone(message)
