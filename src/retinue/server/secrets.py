"""`/secrets`: what a user, or a tenant, entrusts to the server for the tools of its runs. Nobody gets it back."""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field, SecretStr
from sqlalchemy import Connection

from ..errors import UsageError
from ..store.audit_log import record
from ..store.sealed_secrets import LEAST, LONGEST, SecretOwner, check_secret, delete_secret, list_secrets, set_secret
from ..store.tenant_view import TenantView
from .context import ContextDep
from .http.api_errors import ApiError, invalid_value, not_found
from .http.common_schemas import Wire
from .http.objects import Object, deletion_object, listed
from .http.request_body import JsonRoute

router = APIRouter(prefix="/secrets", route_class=JsonRoute)
Name = Annotated[str, Path(max_length=64)]


class SecretValue(Wire):
    """`PUT /secrets/{name}`."""

    model_config = ConfigDict(extra="forbid")

    value: Annotated[SecretStr, Field(min_length=LEAST, max_length=LONGEST)]


@router.get("")
async def list_all(context: ContextDep) -> Object:
    """List the names of the secrets of the key's user, or of its tenant if it has none."""
    found = await context.read(lambda connection, scope: list_secrets(connection, _owner(scope)))
    return listed([_object(*one) for one in found.items()], False)


@router.put("/{name}")
async def put_secret(context: ContextDep, name: Name, body: SecretValue) -> Object:
    """Set a secret. Runs that begin or go on from now on use it."""

    def put(connection: Connection, scope: TenantView) -> Object:
        try:
            check_secret(name, body.value.get_secret_value())
        except UsageError as error:
            raise invalid_value("value", str(error)) from error
        try:
            set_secret(connection, _owner(scope), name, body.value.get_secret_value(), os.environ)
        except UsageError as error:
            no = {"x-should-retry": "false"}
            raise ApiError(503, f"No secret can be set: {error}.", code="secrets_unavailable", headers=no) from error
        record(connection, scope.author, scope.tenant, "secret.set", name, _whose(scope))
        return _object(name, list_secrets(connection, _owner(scope))[name])

    return await context.write(put)


@router.delete("/{name}")
async def remove_secret(context: ContextDep, name: Name) -> Object:
    """Delete a secret."""

    def remove(connection: Connection, scope: TenantView) -> bool:
        there = delete_secret(connection, _owner(scope), name)
        if there:
            record(connection, scope.author, scope.tenant, "secret.deleted", name, _whose(scope))
        return there

    if not await context.write(remove):
        raise not_found("secret", name)
    return deletion_object(name, "secret")


def _owner(scope: TenantView) -> SecretOwner:
    return SecretOwner(scope.tenant, scope.user)


def _whose(scope: TenantView) -> dict[str, str]:
    return {} if scope.user is None else {"user": scope.user}


def _object(name: str, changed_at: int) -> Object:
    return {"id": name, "object": "secret", "changed_at": changed_at}
