"""Former module names. Importing one returns the current module, with a `DeprecationWarning` that names it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

FORMER = {
    "acting": "core.tool_turn",
    "answer_schema": "core.answer_schema",
    "asking": "core.completion",
    "batches": "_internal.concurrency",
    "blocking": "_internal.sync_bridge",
    "budgets": "core.budgets",
    "cache": "_internal.cache",
    "components.addresses": "net.url_policy",
    "components.cross_encoding": "components.relevance_models",
    "components.embedders": "components.embedding_models",
    "components.fetching": "net.service_client",
    "components.guarded": "net.ssrf_guard",
    "components.hosted": "components.hosted_models",
    "components.polite": "net.retry_after",
    "components.queried": "components.query_component",
    "components.search_providers.wikipedia": "components.search_providers.wikipedia_search",
    "components.searching": "components.web_search",
    "components.serpapi": "components.serpapi_component",
    "containment": "_internal.containment",
    "contract": "core.component",
    "declaring": "core.component_declaration",
    "documents.apart": "documents.text_subprocess",
    "documents.conditions": "documents.filters",
    "documents.database": "documents.store_database",
    "documents.files": "documents.file_documents",
    "documents.indexing": "documents.folder_index",
    "documents.passages": "documents.passage_index",
    "documents.scoring": "documents.embedding_scorer",
    "documents.splitting": "documents.splitter",
    "documents.store": "documents.document_store",
    "documents.texts": "documents.text_extraction",
    "documents.worker": "documents.text_worker",
    "effects": "core.effects",
    "events": "core.events",
    "filing": "_internal.yaml_io",
    "grammar": "core.grammar",
    "hiding": "_internal.redaction",
    "json_schema": "core.json_schema",
    "kinds": "_internal.type_check",
    "log_context": "core.log_context",
    "loop": "core.loop",
    "mcp.asking": "mcp.handshake",
    "mcp.http": "mcp.streamable_http",
    "mcp.lost": "mcp.disconnect",
    "mcp.offers": "mcp.tool_pins",
    "mcp.results": "mcp.call_result",
    "mcp.schemas": "mcp.schema_conversion",
    "mcp.server": "mcp.server_address",
    "mcp.serving": "mcp.mcp_server",
    "mcp.tools": "mcp.mcp_tools",
    "mcp.web": "mcp.http_server",
    "memory.background": "memory.background_work",
    "memory.comparing": "memory.contradiction",
    "memory.conversation": "memory.conversation_memory",
    "memory.entities": "memory.entity_memory",
    "memory.extracting": "memory.entity_extractor",
    "memory.filling": "memory.json_record",
    "memory.keeping": "memory.state_file",
    "memory.known": "memory.known_entities",
    "memory.summarizing": "memory.entity_summarizer",
    "memory.turns": "memory.conversation_turns",
    "models.addresses": "net.proxy_route",
    "models.connections": "net.http1",
    "models.failures": "net.error_mapping",
    "models.http": "net.http_client",
    "models.limited": "models.reply_limits",
    "models.probing": "models.tool_call_probe",
    "models.reaching": "net.connection_pool",
    "models.receiving": "models.reply_stream",
    "models.recognising": "models.server_detection",
    "models.retrying": "net.retry",
    "models.sse": "net.sse_parser",
    "models.stopping": "models.stop_sequences",
    "models.wire": "models.wire_format",
    "pipelines.bound": "pipelines.bound_parameters",
    "pipelines.checking": "pipelines.graph_check",
    "pipelines.drawing": "pipelines.diagram",
    "pipelines.running": "pipelines.execution",
    "pipelines.values": "pipelines.variables",
    "pipelines.wires": "pipelines.graph",
    "ports": "core.protocols",
    "progress": "_internal.progress",
    "prompt": "core.prompt",
    "reading": "core.serialization",
    "recording": "core.replay",
    "remembering": "memory.recall",
    "representation": "_internal.representation",
    "run_log": "core.run_log",
    "running": "run.run",
    "schema": "core.values",
    "signature": "core.signature",
    "stagnation": "core.stagnation",
    "strategies.acting_out": "strategies.given_actions",
    "strategies.answering": "strategies.wrappers.structured_output",
    "strategies.closing": "strategies.parsing.final_answer",
    "strategies.describing": "strategies.prompting.prompt_parts",
    "strategies.instructed": "strategies.wrappers.prompt_additions",
    "strategies.json_reply": "strategies.parsing.json_reply",
    "strategies.loose_json": "strategies.parsing.lenient_json",
    "strategies.markers": "strategies.parsing.react_text",
    "strategies.planning": "strategies.plan_text",
    "strategies.prose": "strategies.parsing.final_answer",
    "strategies.protocol": "strategies.parsing.actions",
    "strategies.quoting": "strategies.prompting.injection_guard",
    "strategies.reflecting": "strategies.wrappers.reflection",
    "strategies.relaying": "strategies.wrappers.wrapper",
    "strategies.shapes": "strategies.prompting.constraints",
    "strategies.showing": "strategies.parsing.final_answer",
    "strategies.skeleton": "strategies.prompting.injection_guard",
    "strategies.steps": "strategies.step_loop",
    "strategies.tagged": "strategies.parsing.tagged_calls",
    "strategies.transcript": "strategies.prompting.prompt_parts",
    "suggestions": "_internal.suggestions",
    "supervision": "_internal.supervision",
    "terminal": "display.terminal",
    "threads": "_internal.thread_pool",
    "toolbox": "core.toolbox",
    "tooling": "core.tool",
    "tools.files": "tools.function_loader",
    "tools.keywords": "tools.keyword_search",
    "tools.separate": "tools.subprocess_tool",
    "tools.worker": "tools.subprocess_worker",
    "trace": "display.run_tree",
    "tracebacks": "_internal.tracebacks",
    "watching": "display.live_trace",
    "window": "core.context_window",
}


class _FormerNames:
    """A finder and loader for `sys.meta_path`. Without the classes of `importlib.abc`, which would take half the time
    of `import retinue`."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        return ModuleSpec(name, cast(Any, self)) if package == "retinue" and rest in FORMER else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module; it is replaced later."""

    def exec_module(self, module: ModuleType) -> None:
        former = module.__name__
        now = f"retinue.{FORMER[former.removeprefix('retinue.')]}"
        warnings.warn(f"{former} is {now} now", DeprecationWarning, stacklevel=2)
        sys.modules[former] = import_module(now)


def install() -> None:
    """Make former names importable from now on."""
    if not any(isinstance(one, _FormerNames) for one in sys.meta_path):
        sys.meta_path.insert(0, _FormerNames())  # before the finder that would load `grammar.patterns` a second time
