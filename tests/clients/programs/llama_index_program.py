"""LlamaIndex: Responses, streamed; and `OpenAILike`, which asks for completions unless it is told otherwise."""

from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from reporting import KEY, URL, report


def ask(model: str, question: str) -> str:
    llm = OpenAIResponses(model=model, api_base=URL, api_key=KEY, context_window=10_000, max_retries=0)
    return "".join(piece.delta or "" for piece in llm.stream_complete(question))


like = OpenAILike(model="plain", api_base=URL, api_key=KEY, max_retries=0)
report(
    ask, completion=like.complete("Hello").text, streamed=[piece.text for piece in like.stream_complete("Hello")][-1]
)
