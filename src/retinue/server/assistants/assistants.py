"""`/assistants`: agents of the server's file with a client's instructions, tools and settings on top."""

from __future__ import annotations

import time

from fastapi import APIRouter
from pydantic import ValidationError
from sqlalchemy import Connection

from ...store.tables import assistants
from ...store.tenant_view import TenantView
from ..agents.deployment import Deployment
from ..agents.overrides import check_functions, placed_functions
from ..content.threads import with_stores
from ..context import ContextDep
from ..http.api_errors import ApiError, first_error
from ..http.objects import Object, Wanted, assistant_object, deletion_object, find_row, list_rows, new_id
from ..http.request_body import JsonRoute
from ..models.listing import named_or_only, no_agent
from .schemas import AgentConfig, AssistantCreate, AssistantUpdate

router = APIRouter(route_class=JsonRoute)
_DEFAULTS: Object = {"tools": [], "metadata": {}, "response_format": "auto"}  # of fields that are never null
_REACTING, _PLANNING = ("react", "react_json", "tool_calling"), ("planexec", "humanInLoopPlanExec")
_OPEAS = {  # OPEA's names of strategies, and the ones of ours that they mean
    **dict.fromkeys(("react_langchain", "react_langgraph", "react_llama"), _REACTING),
    "plan_execute": _PLANNING,
}


@router.post("/assistants")
async def create_assistant(context: ContextDep, given: AssistantCreate) -> Object:
    """Create an assistant. `model` defaults to the file's only agent, or with OPEA's `agent_config` to the first."""
    wishes = given.sent()
    config = wishes.pop("agent_config", None)
    if config is not None:
        wishes = apply_config(context.server.deployment, config, wishes)
    nothing = dict.fromkeys(AssistantUpdate.model_fields)
    body = changed_body(context.server.deployment, nothing | _DEFAULTS, wishes)

    def add(connection: Connection, scope: TenantView) -> Object:
        kept = with_stores(connection, scope, body)
        row = {"id": new_id("asst"), "created_at": int(time.time()), "body": kept}
        return assistant_object(scope.add(connection, assistants, row))

    made = await context.write(add)
    if made["tool_resources"]:
        context.server.indexing.wake()
    return made


@router.get("/assistants")
async def list_assistants(context: ContextDep, page: Wanted) -> Object:
    """List the assistants, newest first."""
    return await context.read(
        lambda connection, scope: list_rows(connection, scope, assistants, page, assistant_object),
    )


@router.get("/assistants/{assistant_id}")
async def retrieve_assistant(context: ContextDep, assistant_id: str) -> Object:
    """Retrieve an assistant."""
    return await context.read(
        lambda connection, scope: assistant_object(find_row(connection, scope, assistants, assistant_id))
    )


@router.post("/assistants/{assistant_id}")
async def modify_assistant(context: ContextDep, assistant_id: str, given: AssistantUpdate) -> Object:
    """Modify an assistant: only the fields sent change. Active runs keep the settings they started with."""

    def change(connection: Connection, scope: TenantView) -> Object:
        before = find_row(connection, scope, assistants, assistant_id, lock=True)
        body = changed_body(context.server.deployment, before.body, given.sent())
        body = with_stores(connection, scope, body)
        row = scope.change(connection, assistants, assistant_id, {"body": body})
        assert row is not None
        return assistant_object(row)

    return await context.write(change)


@router.delete("/assistants/{assistant_id}")
async def delete_assistant(context: ContextDep, assistant_id: str) -> Object:
    """Delete an assistant; its runs remain."""

    def remove(connection: Connection, scope: TenantView) -> Object:
        find_row(connection, scope, assistants, assistant_id)
        scope.remove(connection, assistants, assistants.c.id == assistant_id)
        return deletion_object(assistant_id, "assistant")

    return await context.write(remove)


def changed_body(deployment: Deployment, body: Object, wishes: Object) -> Object:
    """Return the body of an assistant with what is wished. Raises `ApiError` if that fits no agent."""
    given = {key: _DEFAULTS[key] if value is None and key in _DEFAULTS else value for key, value in wishes.items()}
    body = {**body, **given}
    body["model"] = named_or_only(deployment, body["model"])
    check_functions(deployment.agents[body["model"]], placed_functions(body["tools"]))
    return body


def apply_config(deployment: Deployment, config: Object, wishes: Object) -> Object:
    """Return `wishes` with OPEA's `agent_config` merged in: the agent, and the settings that a request may change.
    Raises `ApiError` for settings that only the server's file may change."""
    try:
        heeded = AgentConfig.model_validate({key: value for key, value in config.items() if value is not None})
    except ValidationError as error:
        errors = error.errors(include_url=False)
        found: list[Object] = [{**one, "loc": ("body", "agent_config", *one["loc"])} for one in errors]
        where = ".".join(map(str, found[0]["loc"][1:]))
        known = ", ".join(AgentConfig.model_fields)
        message = f"Unknown parameter: '{where}'. A request may set {known}; this server's file sets the rest."
        unknown = ApiError(400, message, param=where, code="unknown_parameter")
        raise unknown if found[0]["type"] == "extra_forbidden" else first_error(found) from error
    wanted = [name for name in (wishes.get("model"), heeded.agent_name) if name is not None]
    model = next((name for name in wanted if name in deployment.agents), None)
    if model is None and wanted and deployment.only is None:  # OPEA's clients name what the only agent is made of
        raise no_agent(wanted[0], deployment.agents)
    model = model or next(iter(deployment.agents))
    _check_strategy(heeded.strategy, model, deployment.agents[model].strategy.name)
    settings = heeded.model_dump(by_alias=True, exclude_none=True, exclude={"agent_name", "strategy"})
    return {**settings, **wishes, "model": model}


def _check_strategy(said: str | None, model: str, strategy: str) -> None:
    meant = _OPEAS.get(said or "", (said,))
    may = ("react", "tool_calling") if strategy == "auto" else (strategy,)
    if said is not None and not {strategy, *may}.intersection(meant):
        message = (
            f"Invalid 'agent_config.strategy': '{said[:60]}' is not the strategy of '{model}': it is '{strategy}' in "
            "this server's file. Leave it out, or name an agent with that strategy."
        )
        raise ApiError(400, message, param="agent_config.strategy", code="invalid_value")
