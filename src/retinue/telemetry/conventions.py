"""The names of attributes and metrics by OpenTelemetry's semantic conventions for generative AI, and our own."""

from __future__ import annotations

import sys

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOKEN_TYPE = "gen_ai.token.type"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
ERROR_TYPE = "error.type"

RUN = "retinue.run.id"
STRATEGY = "retinue.strategy"
STEP = "retinue.step"
STEPS = "retinue.steps"
STOP_REASON = "retinue.stop_reason"
OUTCOME = "retinue.tool.outcome"
COST = "retinue.cost"
RETRIES = "retinue.retries"
CLOSING = "retinue.closing"
DECISION = "retinue.decision"

INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"

DURATION_METRIC = "gen_ai.client.operation.duration"
TOKENS_METRIC = "gen_ai.client.token.usage"
FIRST_CHUNK_METRIC = "gen_ai.client.operation.time_to_first_chunk"
RUNS_METRIC = "retinue.runs"
TOOL_CALLS_METRIC = "retinue.tool.calls"


def read_version() -> str:
    """Return Retinue's. Its package, which stands on this one, is always there."""
    return str(getattr(sys.modules["retinue"], "__version__", ""))
