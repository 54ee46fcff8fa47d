"""Asks the server's assistant a question, as any client of OpenAI's Assistants API does.

It needs `pip install openai`, and the environment variables OPENAI_BASE_URL and OPENAI_API_KEY.
"""

from __future__ import annotations

import sys

from openai import OpenAI


def answer(question: str) -> str:
    """The assistant's answer to `question`, or how its run ended without one."""
    client = OpenAI()
    assistant = client.beta.assistants.create(model="librarian")  # a model of the server is an agent of its file
    thread = client.beta.threads.create(messages=[{"role": "user", "content": question}])
    run = client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id)
    if run.status != "completed":
        return f"The run ended with the status {run.status}."
    (message,) = client.beta.threads.messages.list(thread.id, run_id=run.id)
    return "".join(part.text.value for part in message.content if part.type == "text")


if __name__ == "__main__":
    print(answer(sys.argv[1] if len(sys.argv) > 1 else "Who drew the oldest chart in the map room?"))
