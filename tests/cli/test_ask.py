"""`retinue ask` as a user meets it: a process, its output, its exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import command_line
from fakes.openai_server import Answer, OpenAIServer, Request, failure
from retinue.strategies.auto import preset_strategy

ROOT = Path(__file__).parents[2]
DEMO = ["--passages", str(ROOT / "data/demo/passages.jsonl")]
ACTION = " I need to calculate.\nAction: Calculator\nAction Input: 47^0.23\n"
ANSWER = " I now know the final answer\nFinal Answer: 2.42"


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "RETINUE_DEBUG"))}
    return kept | {"PYTHONUNBUFFERED": "1"} | more


def retinue(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    if "--base-url" in arguments and "--strategy" not in arguments:
        arguments += ("--strategy", "react")  # what is replied here is in its form; `auto` would try tool calls first
    return command_line.retinue(*arguments, env=environment(**more))


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_the_trace_shows_thoughts_actions_observations_costs_and_the_answer(server: OpenAIServer, how: str) -> None:
    server.replies += [ACTION, ANSWER]
    done = retinue("ask", "What is 47^0.23?", "--base-url", server.url, how)
    assert done.returncode == 0, done.stderr
    for shown in (
        "Question: What is 47^0.23?",
        "│  I need to calculate.\n",
        '│  ├─ Calculator("47^0.23")\n',
        "│  │  → 2.4242784855673896 · ",
        "tokens in",
        "Answer: 2.42",
    ):
        assert shown in done.stdout
    assert done.stdout.count("2.42\n") == 1
    assert "Final Answer" not in done.stdout
    assert "\x1b" not in done.stdout  # no colours into a pipe
    assert done.stderr == ""


def test_json_prints_the_events_as_lines_and_nothing_else(server: OpenAIServer) -> None:
    server.replies += [ACTION, ANSWER]
    done = retinue("ask", "What is 47^0.23?", "--base-url", server.url, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds == ["started", "asked", "replied", "called", "observed", "asked", "replied", "finished"]
    assert events[-1]["answer"] == "2.42"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("indexed", [False, True])
def test_a_folder_of_files_or_its_index_is_searched(server: OpenAIServer, indexed: bool, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("item,price\ndesk,120\n")
    (tmp_path / "old.txt").write_bytes("Ren\xe9 has 27 days of leave.".encode("latin-1"))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    if indexed:
        assert "2 new" in retinue("index", str(tmp_path)).stdout
        (tmp_path / "prices.csv").unlink()
    server.replies += [" I search.\nAction: Search\nAction Input: leave\n", ANSWER]
    done = retinue("ask", "How many days?", "--base-url", server.url, "--passages", str(tmp_path))
    assert "René has 27 days of leave." in done.stdout
    assert ("not searched: picture.png: cannot be read" in done.stderr) is not indexed


def test_passages_are_searched(server: OpenAIServer) -> None:
    server.replies += [" I look\nAction: Search\nAction Input: Jason Sudeikis age\n", ANSWER]
    done = retinue("ask", "How old?", "--base-url", server.url, "--passages", str(ROOT / "data/demo/passages.jsonl"))
    assert "→ [Jason Sudeikis age] 47 years" in done.stdout


def test_a_run_without_an_answer_exits_with_1(server: OpenAIServer) -> None:
    server.replies += [" "]
    done = retinue("ask", "?", "--base-url", server.url, "--max-steps", "1")
    assert done.returncode == 1
    assert "Stopped: MAX_ITERATION_EXCEEDED" in done.stdout


def test_what_a_model_writes_cannot_steer_the_terminal(server: OpenAIServer) -> None:
    server.replies += [" \x1b[2J\x1b]0;pwned\x07hello\rFinal\nFinal Answer: \x1b[31mred\x07"]
    done = retinue("ask", "?", "--base-url", server.url)
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "Answer: red" in done.stdout


def test_ctrl_c_in_the_middle_stops_the_run_and_leaves_the_terminal_clean(server: OpenAIServer) -> None:
    server.replies += [ACTION, server.hang]
    words = [sys.executable, "-m", "retinue", "ask", "?", "--base-url", server.url, "--strategy", "react"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("├─ step 2"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Stopped: CANCELLED" in out
    assert err == ""


def test_a_strategy_is_chosen_by_what_the_server_can_do(server: OpenAIServer) -> None:
    probe, call = Answer(calls=[("add", {"a": 19, "b": 23})]), Answer(calls=[("Calculator", {"expression": "2^3"})])
    server.replies += [probe, call, "It is 8."]
    done = retinue("ask", "What is 2^3?", "--base-url", server.url, "--strategy", "auto", "--json")
    started, *_, finished = [json.loads(line) for line in done.stdout.splitlines()]
    assert (started["strategy"], finished["answer"]) == ("tool_calling", "It is 8.")


def test_a_server_is_not_taken_for_a_small_model_whatever_it_can_do(server: OpenAIServer) -> None:
    server.owned_by = "llamacpp"  # holds the model to a pattern, like the embedded one
    server.replies += [ANSWER]
    done = command_line.retinue("ask", "?", "--base-url", server.url, *DEMO, "--json", env=environment())
    started, *_, finished = [json.loads(line) for line in done.stdout.splitlines()]
    assert (started["strategy"], finished["answer"]) == ("react", "2.42")


@pytest.mark.parametrize(("limit", "searches"), [([], 12), (["--max-steps", "4"], 2)])
def test_careful_may_take_many_replies_unless_the_user_sets_a_limit(
    server: OpenAIServer, tmp_path: Path, limit: list[str], searches: int
) -> None:
    texts = [f"Mill {number} was built in {number}." for number in range(1801, 1813)]
    (tmp_path / "mills.jsonl").write_text("\n".join(json.dumps({"title": text[:9], "text": text}) for text in texts))
    server.owned_by, server.always = "llamacpp", _last_question_or_year
    question = " ".join(f"In which year was Mill {number} built?" for number in range(1801, 1813))
    words = ["--base-url", server.url, "--passages", str(tmp_path / "mills.jsonl"), "--strategy", "careful", *limit]
    done = retinue("ask", question, *words, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["kind"] for event in events].count("called") == searches


def _last_question_or_year(request: Request) -> Answer:
    """Write a question as it is, and answer one with its year."""
    text = str(request.body.get("prompt") or request.body["messages"][-1]["content"]).rstrip()
    year = re.findall(r"\b18\d\d\b", text)[-1]
    return Answer(f" In which year was Mill {year} built?\n" if text.endswith("Alone:") else f" {year}\n")


@pytest.mark.parametrize(
    ("engine", "searches", "strategy"),
    [
        ("local", True, "careful"),  # the embedded model, or a GGUF file
        ("local", False, "auto"),
        ("llamacpp", True, "auto"),
        ("openai", True, "auto"),
        ("scripted", True, "auto"),
    ],
)
def test_careful_is_the_preset_of_small_models_that_can_search(engine: str, searches: bool, strategy: str) -> None:
    assert preset_strategy(engine, searches=searches) == strategy


@pytest.mark.model
@pytest.mark.parametrize(
    ("options", "strategy"),
    [(DEMO, "careful"), ([], "react"), ([*DEMO, "--strategy", "react"], "react")],
)
def test_the_embedded_model_is_careful_with_passages(embedded_model: Path, options: list[str], strategy: str) -> None:
    named = ["--model", str(embedded_model), "--max-steps", "1", "--json"]
    done = retinue("ask", "How old is Jason Sudeikis?", *named, *options)
    assert json.loads(done.stdout.splitlines()[0])["strategy"] == strategy


def test_a_model_that_is_not_there_is_one_line_with_the_one_that_was_meant(server: OpenAIServer) -> None:
    server.models = ["qwen2.5:3b", "llama3.2"]
    server.replies += [failure(404, "The model `qwen3` does not exist")]
    done = retinue("ask", "?", "--base-url", server.url, "--model", "qwen3")
    assert done.stderr.splitlines() == [f"retinue: {server.url}/v1 has no model 'qwen3'; did you mean 'qwen2.5:3b'?"]
    assert done.returncode == 2


# ── bad input: one clear line, never a traceback ─────────────────────────────────────────────────


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


def test_a_wrong_key_is_one_line_that_does_not_repeat_the_key(server: OpenAIServer) -> None:
    server.api_key = "right"
    done = retinue("ask", "?", "--base-url", server.url, OPENAI_API_KEY="sk-wrong-secret")
    assert "is the API key right?" in refused(done)
    assert "sk-wrong-secret" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "gpt-5-mini"], "OpenAI needs a key: set OPENAI_API_KEY"),
        (["--model", "local:nothing"], "no model 'nothing'"),
        (["--model", "nothing.gguf"], "no model 'nothing.gguf'"),
        (["--model", "{path}/bad.gguf"], "is damaged or not a GGUF file (8 bytes)"),
        (["--base-url", "http://127.0.0.1:9"], "cannot connect to http://127.0.0.1:9/v1: Connection refused"),
        (["--base-url", "::::"], "is not the address of a server (want http://host:port)"),
        (["--passages", "{path}/lines.jsonl"], "lines.jsonl:2: not JSON: 'oops' (want one JSON object a line)"),
        (["--passages", "{path}/nothing"], "nothing does not exist (want a JSONL file, or a folder"),
        (["--rank"], "--rank needs --passages, whose results it ranks"),
        (["--passages", "{path}/fine.jsonl", "--rank"], "retinue models pull minilm"),
        (["--max-steps", "0"], "0 is not in the range x>=1"),
        (["--model", "engine:x"], "no engine 'engine'; there are: local, openai, "),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"not gguf")
    (tmp_path / "lines.jsonl").write_text('{"text": "fine"}\noops\n')
    (tmp_path / "fine.jsonl").write_text('{"text": "fine"}\n')
    words = [argument.replace("{path}", str(tmp_path)) for argument in arguments]
    done = retinue("ask", "?", *words, RETINUE_CACHE=str(tmp_path))
    assert message in refused(done)


def test_an_empty_question_is_refused() -> None:
    assert "the question is empty" in refused(retinue("ask", "  ", "--model", "openai:x", OPENAI_API_KEY="k"))


def test_missing_weights_are_one_line_with_the_command_that_fetches_them(tmp_path: Path) -> None:
    done = retinue("ask", "?", RETINUE_CACHE=str(tmp_path))
    assert refused(done).endswith(
        "the embedded model is not here yet; fetch it (1.1 GB) with: retinue models pull embedded"
    )


def test_help_and_version_need_nothing() -> None:
    shown = retinue("--help").stdout
    groups = re.findall(r"^(\w.*):\n((?:  \w.*\n)+)", shown, re.MULTILINE)
    titles = ["Ask", "Write a file of agents", "Models, and texts to search", "Serve", "Look after a server"]
    assert [title for title, _ in groups] == titles
    assert re.findall(r"^  (\w+)", groups[0][1], re.MULTILINE) == ["ask", "run", "chat", "trace", "eval"]
    assert max(map(len, shown.splitlines())) <= 80
    assert retinue("--version").stdout.startswith("retinue, version ")


def test_an_unknown_command_is_refused() -> None:
    assert "No such command 'frob'" in refused(retinue("frob"))
    assert refused(retinue("serv")).endswith("No such command 'serv'. Did you mean 'serve'?")
