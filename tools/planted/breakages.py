"""The breakages: small wrong changes, each at a place that matters, and the tests that are expected to find them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class DoesNotStand(Exception):
    """A breakage does not fit the tree any more: its text has to follow the code."""


@dataclass(frozen=True, slots=True)
class Breakage:
    """A change of one file.

    Args:
        name: By which it is chosen.
        file: Below `src/retinue`.
        text: As it stands there, once.
        instead: What is put in its place.
        tests: Files below `tests` of which one finds it.
    """

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def apply(self, src: Path) -> None:
        """Change the file in the tree `src`. Raises `DoesNotStand`."""
        path = src / "retinue" / self.file
        try:
            content = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise DoesNotStand(f"{self.name}: there is no {self.file}") from None
        if (count := content.count(self.text)) != 1:
            raise DoesNotStand(f"{self.name}: its text stands {count} times in {self.file}, and not once: {self.text}")
        path.write_text(content.replace(self.text, self.instead), encoding="utf-8")


BREAKAGES = (
    Breakage(
        "a budget of steps allows one more",
        "core/budgets.py",
        "spent = self.budget.steps is not None and self.steps >= self.budget.steps",
        "spent = self.budget.steps is not None and self.steps > self.budget.steps",
        ("core/test_loop.py", "strategies/test_limits.py", "core/test_executor.py"),
    ),
    Breakage(
        "a call begins while its intent is being written",
        "runs/log_writer.py",
        "        await self.written()\n        fresh = not",
        "        self.write()\n        fresh = not",
        ("runs/test_driver.py", "server/test_killed_runs.py"),
    ),
    Breakage(
        "a call begins though the run was cancelled or taken over",
        "runs/log_writer.py",
        "goes_on = await self.may_act()",
        "await self.written()",
        ("runs/test_driver.py",),
    ),
    Breakage(
        "a call that may happen only once is repeated after a crash",
        "core/tools/toolbox.py",
        'if (begun or doubt is not None) and tool.find_effects(action.tool_input) == "once":',
        'if not begun and doubt is not None and tool.find_effects(action.tool_input) == "once":',
        ("core/test_unknown_outcomes.py", "core/test_resuming.py"),
    ),
    Breakage(
        "an append under an older epoch is accepted",
        "store/event_log.py",
        'runs.c.epoch == bindparam("held"))',
        'runs.c.epoch >= bindparam("held"))',
        ("store/test_guarded_writes.py", "runs/test_driver.py"),
    ),
    Breakage(
        "a row of another tenant can be read",
        "store/tenant_view.py",
        'query = select(table).where(table.c.tenant == bindparam("of"), table.c.id == bindparam("wanted"))',
        'query = select(table).where(bindparam("of") != "", table.c.id == bindparam("wanted"))',
        ("server/test_tenant_matrix.py", "server/test_isolation.py"),
    ),
    Breakage(
        "a redirect leads to a private address",
        "net/ssrf_guard.py",
        "answer = await self._fetch(address, await self._find_allowed(address))",
        "answer = await self._fetch(address, await self._find_allowed(address) if not _ else [address.host])",
        ("net/test_ssrf_guard.py",),
    ),
    Breakage(
        "a tool's result repeats a secret",
        "core/tools/toolbox.py",
        "text = _shorten(redact(make_well_formed(text)),",
        "text = _shorten(make_well_formed(text),",
        ("core/test_redaction.py", "server/test_secrets.py"),
    ),
    Breakage(
        "a secret in base64 is not recognized",
        "_internal/redaction.py",
        "    for coded in (b64encode, urlsafe_b64encode):",
        "    for coded in ():",
        ("core/test_redaction.py",),
    ),
    Breakage(
        "a tool's output can imitate a turn",
        "strategies/step_loop.py",
        'return f"{neutralize(seen.text)}\\n{seen.note}" if seen.note else neutralize(seen.text)',
        'return f"{seen.text}\\n{seen.note}" if seen.note else seen.text',
        ("strategies/test_injection.py",),
    ),
    Breakage(
        "an input is not held against its tool's JSON Schema",
        "core/tools/signature.py",
        "        if errors:\n",
        "        if errors and not values:\n",
        ("mcp_servers/test_mcp_client.py", "core/test_signature.py"),
    ),
    Breakage(
        "a prompt is a copy of the one before, which no cache knows",
        "strategies/step_loop.py",
        "_add_reply(self._asked, turn), turn\n        if",
        "_add_reply(Prompt(self._asked.message, self._asked.before), turn), turn\n        if",
        ("strategies/test_step_loop.py", "core/test_long_conversations.py", "models/test_prompt_beginnings.py"),
    ),
    Breakage(
        "a wire drops the thoughts that Claude wants back",
        "models/wires/messages.py",
        "list(_restore_blocks(message) if message.state else _encode_blocks(message, content))",
        "list(_encode_blocks(message, content))",
        ("models/test_vendor_rules.py", "models/test_anthropic_thinking.py"),
    ),
    Breakage(
        "a wire drops what chat vendors want back",
        "models/wires/chat.py",
        "return {**turn, **kept,",
        "return {**turn,",
        ("models/test_vendor_rules.py", "models/test_chat_vendors.py"),
    ),
    Breakage(
        "a request that a server may have carried out is sent again",
        "net/connection_pool.py",
        "if kept is None or kept.heard or not",
        "if kept is None or not",
        ("net/test_http_connections.py", "net/test_single_requests.py"),
    ),
    Breakage(
        "a call that is tried again gets another idempotency key",
        "core/tools/toolbox.py",
        "first = record.failed or call.id",
        "first = call.id",
        ("core/test_unknown_outcomes.py", "core/test_toolbox.py"),
    ),
    Breakage(
        "a repeated request is carried out twice",
        "server/http/idempotency.py",
        "if number < len(done):",
        "if number + 1 < len(done):",
        ("server/test_idempotency.py",),
    ),
    Breakage(
        "a stream of chunks has no end",
        "server/chat/projection.py",
        "    tail = DONE",
        '    tail = ""',
        ("server/test_sdk_wire.py", "server/test_sdk_streams.py", "server/test_sdk_chat.py"),
    ),
    Breakage(
        "a failed run is told as completed",
        "runs/status.py",
        'return RunValues(status="failed", error=RunError(',
        'return RunValues(status="completed", error=RunError(',
        ("server/test_runs_that_fail.py", "runs/test_drive_ends.py"),
    ),
    Breakage(
        "the usage of a streamed reply is lost",
        "models/wires/chat.py",
        'if counted := body.get("usage"):',
        'if (counted := body.get("usage")) and choices:',
        ("models/test_openai.py", "models/test_engines.py", "models/test_wire_format.py"),
    ),
    Breakage(
        "only the last request of a day counts against a quota",
        "store/usage_sums.py",
        "days[day] = days.get(day, NOTHING).plus(used_by(usage))",
        "days[day] = used_by(usage)",
        ("store/test_usage_sums.py", "server/test_quotas.py"),
    ),
    Breakage(
        "a cancelled run is not in the audit log",
        "server/run_session.py",
        '    record(connection, author, run.tenant, "run.cancelled", run.id)\n',
        "",
        ("server/test_audit.py",),
    ),
    Breakage(
        "a migration says that older servers may go on beside it",
        "store/migrations/__init__.py",
        "compatible = is_compatible(script, statements)",
        "compatible = True",
        ("store/test_compatibility.py", "store/test_migrations.py"),
    ),
    Breakage(
        "a mistake in YAML has no place",
        "_internal/yaml_text.py",
        "Problem(self.file, *place, message)",
        "Problem(self.file, 1, 1, message)",
        ("config/test_broken.py", "config/test_yaml_reader.py"),
    ),
    Breakage(
        "an exported agent has its secrets in it",
        "config/export.py",
        'value = without_secrets({"retinue": VERSION} | sections | tools)',
        'value = {"retinue": VERSION} | sections | tools',
        ("config/test_export.py", "config/test_yaml_writer.py"),
    ),
    Breakage(
        "a memory is not saved after a turn",
        "memory/stored_memory.py",
        "self.note(question, answer)\n        await run_in_thread(self.save)\n",
        "self.note(question, answer)\n",
        ("memory/test_memory_files.py", "memory/test_entity_memory.py", "memory/test_conversation_memory.py"),
    ),
    Breakage(
        "a graph goes on after a person's refusal",
        "teams/graph_flow.py",
        "return Output(describe_rejection(decision), failed=True)",
        "return Output(describe_rejection(decision))",
        ("teams/test_message_group.py", "teams/test_endings.py"),
    ),
    Breakage(
        "a tool of an MCP server that has changed is called",
        "mcp/session.py",
        "if name in now.refused or (name in now.offers and now.offers[name].sha256 != offer.sha256):",
        "if name in now.refused:",
        ("mcp_servers/test_mcp_client.py", "mcp_servers/test_mcp_misbehaving.py"),
    ),
    Breakage(
        "what a member used is not charged to its caller",
        "core/tools/delegation.py",
        "call.usage, call.seconds = answer.usage, answer.seconds",
        "call.seconds = answer.seconds",
        ("teams/test_members.py", "core/test_using_agents.py"),
    ),
    Breakage(
        "a helper has all tools of its caller",
        "run/spec.py",
        "passed = [tool for tool in tools if tool.name in order.tools]",
        "passed = list(tools)",
        ("teams/test_helpers.py",),
    ),
    Breakage(
        "what helpers in the background may use is not held for them",
        "core/budgets.py",
        "self._replies += sign * share.get",
        "self._replies += 0 * share.get",
        ("teams/test_helpers.py",),
    ),
    Breakage(
        "the model is told of a helper's end again and again",
        "core/tools/helpers.py",
        "self._ended.add(state.call)",
        "pass",
        ("teams/test_helpers.py",),
    ),
    Breakage(
        "the list of what is to do is that of the first call",
        "harness/todos.py",
        "todos = tuple(Todo",
        "todos = todos or tuple(Todo",
        ("teams/test_todos.py",),
    ),
    Breakage(
        "a call that needs a person's approval is made without it",
        "core/tools/toolbox.py",
        'if tool.approval and not begun else ""',
        'if tool.approval and begun else ""',
        ("core/test_resuming.py", "runs/test_driver.py"),
    ),
    Breakage(
        "an exported run has in it what only its vendor should see",
        "runs/run_export.py",
        'del one["state"]',
        'one.get("state")',
        ("server/test_reasoning.py", "server/test_run_exports.py"),
    ),
    Breakage(
        "a key sees prompts though no scope of it says so",
        "server/http/authentication.py",
        "return scopes is not None and wanted in scopes",
        "return scopes is None or wanted in scopes",
        ("server/test_run_events.py", "server/test_scopes.py"),
    ),
    Breakage(
        "a tunnel to a private address counts as public",
        "net/url_policy.py",
        "return ip.is_global and ip in _UNICAST and not tunnel and not any(ip in network for network in _IPV6)",
        "return ip.is_global and ip in _UNICAST",
        ("net/test_ssrf_guard.py",),
    ),
    Breakage(
        "a command that reads can write",
        "harness/sandbox.py",
        '*(() if changes else ("--remount-ro", "/workspace")),',
        "",
        ("harness/test_shell.py",),
    ),
    Breakage(
        "a sandbox with a network reaches any host",
        "harness/network_proxy.py",
        "if not (named and port == 443) and",
        "if host and not self._guard and",
        ("harness/test_sandbox_network.py",),
    ),
    Breakage(
        "a sandbox reads the keyring of the server",
        "harness/syscall_filter.py",
        '"keyctl": (250, 219), ',
        "",
        ("harness/test_escapes.py",),
    ),
)
