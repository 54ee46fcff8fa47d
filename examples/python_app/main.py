"""The agent of app.py in a FastAPI application, for the users of its own login: `uvicorn main:app`."""

from app import agent
from fastapi import FastAPI, HTTPException, Request, Response

import retinue

SESSIONS: dict[str, str] = {}  # an application has its own, in its database


def user_of(request: Request) -> retinue.Login | None:
    """For whom a request is."""
    user = SESSIONS.get(request.cookies.get("session", ""))
    return retinue.Login(user) if user else None


agents = retinue.asgi(agent, db="runs.db", user_of=user_of)
app = FastAPI(lifespan=agents.lifespan)
app.mount("/ai", agents)


@app.post("/login")
def login(name: str, password: str, response: Response) -> str:
    """Log in; an application checks its passwords better than this."""
    if password != f"{name}'s":
        raise HTTPException(401, "That is not the password.")
    session = f"session-of-{name}"
    SESSIONS[session] = name
    response.set_cookie("session", session, httponly=True, samesite="lax")
    return "welcome"
