"""`/studio/evals`: the reports that `retinue eval` wrote into the folder of `--evals`. They are the operator's, so they
need the scope `prompts`. An extension."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from ...evals.json_report import ReportFolder, list_report_folders
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.objects import Object
from ..http.request_body import JsonRoute

router = APIRouter(prefix="/studio/evals", route_class=JsonRoute)


@router.get("")
async def list_evaluations(context: ContextDep) -> Object:
    """List the evaluations, newest first. `served` is false if the server was started without `--evals`."""
    folders = await _folders(context)
    data = await asyncio.to_thread(lambda: [_summary(one) for one in folders])
    return {"object": "list", "served": context.server.options.evals is not None, "data": data}


@router.get("/{evaluation}")
async def retrieve_evaluation(context: ContextDep, evaluation: str) -> Object:
    """Retrieve a report: the figures with their intervals, and each question with what was answered."""
    folder = await _folder(context, evaluation)
    report = await asyncio.to_thread(folder.read_report)
    if report is None:
        message = f"The evaluation '{evaluation}' has no report yet: run the same `retinue eval` again to write it."
        raise ApiError(409, message, code="no_report")
    return _named(folder) | {"about": report["about"], "figures": report["figures"], "questions": report["questions"]}


@router.get("/{evaluation}/runs")
async def retrieve_evaluation_run(context: ContextDep, evaluation: str, configuration: str, question: str) -> Object:
    """Retrieve the log of one run of an evaluation: the events in order, and those of its members by their calls."""
    folder = await _folder(context, evaluation)
    kept = await asyncio.to_thread(folder.read_run, configuration, question)
    if kept is None:
        raise not_found("run of this evaluation", f"{configuration}/{question}")
    members = {path: _events(log) for path, log in (kept.get("children") or {}).items()}
    return {"object": "studio.evaluation.run", "events": _events(kept["events"]), "members": members}


async def _folders(context: Context) -> list[ReportFolder]:
    root = context.server.options.evals
    if root is None:
        return []
    try:
        return await asyncio.to_thread(list_report_folders, root)
    except OSError as error:
        raise ApiError(503, f"The folder of --evals cannot be read: {error.strerror}.", kind="server_error") from error


async def _folder(context: Context, name: str) -> ReportFolder:
    found = next((one for one in await _folders(context) if one.name == name), None)
    if found is None:
        raise not_found("evaluation", name)
    return found


def _named(folder: ReportFolder) -> Object:
    return {"id": folder.name, "object": "studio.evaluation", "written_at": folder.written}


def _summary(folder: ReportFolder) -> Object:
    figures = (folder.read_report() or {}).get("figures")
    if figures is None:
        return _named(folder) | {"dataset": None, "questions": None, "configurations": []}
    configurations = [
        {"name": one["name"], "right": one["shares"].get("right"), "questions": one["questions"]}
        for one in figures["configurations"]
    ]
    return _named(folder) | {
        "dataset": figures["dataset"], "questions": figures["questions"], "configurations": configurations
    }  # fmt: skip


def _events(log: list[dict[str, Any]]) -> list[Object]:
    """Return a kept log in the form of a run's events. When each happened is not kept."""
    return [
        {
            "id": str(number),
            "object": "run.event",
            "created_at": None,
            "type": event.get("kind"),
            "data": {name: value for name, value in event.items() if name != "kind"},
            "withheld": [],
        }
        for number, event in enumerate(log, 1)
        if isinstance(event, dict)
    ]
