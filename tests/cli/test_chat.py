"""`retinue chat` as a person meets it, in a real terminal, and as a program does, through a pipe."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes import command_line
from fakes.openai_server import OpenAIServer
from fakes.tmux import Terminal
from fakes.until import until

FILE = """\
retinue: 1
agents:
  - name: guide
    params:
      model: scripted
      script:
        - {when: "^second", finish: "Two, after one."}
        - {when: "^slow", finish: "It takes and takes and takes a while.", pace: 0.4}
        - {when: "sum", call: {tool: calculator, input: {expression: 6*7}}}
        - {when: "^42", finish: "The sum is 42."}
        - {when: "^never", error: hang}
        - {when: "^first line\\nsecond line$", finish: "I saw two lines."}
        - {when: "^first", finish: "One."}
      strategy: tool_calling
      questions: [first question]
      tools: [calculator]
      require_human_feedback: [calculator]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agents.yml"
    path.write_text(FILE)
    return path


@contextmanager
def chat(file: Path, *words: str, height: int = 50) -> Iterator[Terminal]:
    """A terminal in which somebody chats, from the prompt on."""
    folder = file.parent
    env = {"RETINUE_CACHE": str(folder / "cache")}
    with Terminal(["chat", file.name, *words], height=height, folder=folder, env=env) as terminal:
        terminal.until("\n›")
        yield terminal


def say(terminal: Terminal, text: str, *keys: str) -> None:
    """Type at the prompt, once it is there: a text and Enter, or other `keys`."""
    until(lambda: terminal.shows().endswith("\n›"))
    terminal.type(text, *(keys or ("Enter",)))


def test_each_question_comes_with_those_before_and_may_have_several_lines(file: Path) -> None:
    with chat(file) as terminal:
        assert "guide · scripted · calculator · /help\n  first question\n" in terminal.shows()
        say(terminal, "first question")
        terminal.until("╰─ Answer: One.\n")
        say(terminal, "second\\")
        terminal.type("line", "M-Enter")
        terminal.type("and another")
        terminal.until("› second\n  line\n  and another")
        terminal.type("", "Enter")
        terminal.until("╰─ Answer: Two, after one.\n")
        say(terminal, "/verbose")
        terminal.until("word for word from now on")
        until(lambda: terminal.shows().endswith("\n›"))
        terminal.paste("first line\nsecond line")
        terminal.until("› first line\n  second line")
        terminal.type("", "Enter")
        seen = terminal.until("╰─ Answer: I saw two lines.\n")
    quoted = re.sub(r"^│  ", "", seen[seen.index("› first line") :], flags=re.MULTILINE)
    first = "user\n┊ first question\nassistant\n┊ One.\n"
    second = "user\n┊ second\n┊ line\n┊ and another\nassistant\n┊ Two, after one.\n"
    assert f"{first}{second}user\n┊ first line\n┊ second line\nreply\n┊ I saw two lines.\n" in quoted


@pytest.mark.full
def test_a_conversation_is_saved_and_a_new_one_begins_with_nothing(file: Path) -> None:
    with chat(file, "--verbose") as terminal:
        say(terminal, "first question")
        terminal.until("╰─ Answer: One.\n")
        for name in ("talk.md", "talk.json"):
            say(terminal, f"/save {name}")
            terminal.until(f"saved in {name}")
        say(terminal, "/save talk.md")
        terminal.until("retinue: talk.md exists; give another name")
        say(terminal, "/new")
        terminal.until("a new conversation")
        say(terminal, "first again")
        anew = terminal.until("Answer: One.", 2).rpartition("a new conversation")[2]
        assert "first again" in anew
        assert "first question" not in anew
        say(terminal, "", "C-d")
        terminal.until("[exit 0]")
    saved = json.loads((file.parent / "talk.json").read_text())
    assert saved == {"agent": "guide", "turns": [{"question": "first question", "answer": "One."}]}
    assert (file.parent / "talk.md").read_text() == "**You:** first question\n\n**guide:** One.\n"


def test_ctrl_c_stops_a_run_and_twice_at_the_prompt_it_leaves(file: Path) -> None:
    with chat(file) as terminal:
        say(terminal, "slow")
        terminal.until("Answer: It takes")
        terminal.type("typed meanwhile ", "C-c")
        seen = terminal.until("Stopped: CANCELLED")
        assert "a while" not in seen
        assert "meanwhile" not in seen.rpartition("Stopped")[0]
        say(terminal, "never")
        terminal.until("the model works")
        terminal.type("", "C-c")
        terminal.until("Stopped: CANCELLED", 2)
        say(terminal, "nothing fits")
        terminal.until("retinue: no rule of the script fits")
        say(terminal, "first of all")  # and it goes on
        terminal.until("Answer: One.")
        say(terminal, "half a question", "C-c")
        say(terminal, "", "C-c")
        terminal.until("Ctrl-C again, or Ctrl-D, leaves")
        say(terminal, "first")
        terminal.until("Answer: One.", 2)
        say(terminal, "", "C-c")
        terminal.until("Ctrl-C again, or Ctrl-D, leaves", 2)
        say(terminal, "", "C-c")
        seen = terminal.until("[exit 0]")
        assert "Traceback" not in seen


def test_a_person_is_asked_within_the_tree_and_who_stops_there_is_not_asked_for_more(file: Path) -> None:
    with chat(file) as terminal:
        say(terminal, "the sum?")
        terminal.until("answer instead:")
        terminal.type("x", "Enter")
        terminal.until("want one of a, w, e, r, m")
        terminal.type("a", "Enter")
        seen = terminal.until("Answer: The sum is 42.")
        decided = "│  │  a person decided: approve\n│  │  → 42 · "
        assert seen.index('├─ calculator(expression="6*7")') < seen.index("[a]pprove") < seen.index(decided)
        say(terminal, "the sum?")
        terminal.until("answer instead:", 3)
        terminal.type("", "C-c")
        terminal.until("Stopped: CANCELLED")
        say(terminal, "first")  # the whole line, of which nobody else takes anything
        terminal.until("Answer: One.")


@pytest.mark.full
def test_the_last_run_is_shown_whole_and_commands_are_explained(file: Path) -> None:
    long = "first " + "word " * 200 + "end"
    with chat(file, height=24) as terminal:
        say(terminal, "/trace")
        terminal.until("retinue: nothing was asked yet")
        say(terminal, long)
        terminal.until("Answer: One.")
        say(terminal, "/trace")
        seen = terminal.until("Answer: One.", 2).rpartition("/trace")[2]
        assert "guide · tool_calling · scripted · calculator\nQuestion: first word" in seen
        assert "end\n├─ step 1" in seen
        say(terminal, "/help")
        terminal.until("/quit")
        say(terminal, "/trase")
        terminal.until("retinue: no command '/trase'; did you mean '/trace'?")
        say(terminal, "/save")
        terminal.until("say where: /save conversation.md")
        say(terminal, "/quit")
        terminal.until("[exit 0]")


@pytest.mark.full
def test_what_was_typed_is_there_again_at_the_next_start_for_this_user_alone(file: Path) -> None:
    with chat(file) as terminal:
        say(terminal, "first and last")
        terminal.until("Answer: One.")
    kept = file.parent / "cache/chat_history"
    assert kept.stat().st_mode & 0o777 == 0o600
    with chat(file) as terminal:
        say(terminal, "", "Up")
        terminal.until("› first and last")


# ── through a pipe ───────────────────────────────────────────────────────────────────────────────


def piped(text: str, *words: str | Path, before: str = "pass") -> subprocess.CompletedProcess[str]:
    code = f"import sys; {before}; from retinue.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "chat", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def test_lines_from_a_pipe_are_questions_and_need_no_line_editor(file: Path) -> None:
    without = "sys.modules['prompt_toolkit'] = None"
    done = piped("first\n\n  second \n/nothing\n", file, before=without)
    assert re.findall(r"^(?:Question|╰─ Answer): (.*)$", done.stdout, re.MULTILINE) == [
        *("first", "One.", "second", "Two, after one.")
    ]
    assert done.stderr == "retinue: no command '/nothing'; there are: /help, /new, /trace, /verbose, /save, /quit\n"
    assert "\x1b" not in done.stdout
    assert done.returncode == 0


def test_the_exit_status_says_whether_the_last_question_was_answered(file: Path) -> None:
    assert piped("first\nsum\n", file).returncode == 1  # a person would have to be asked


def test_without_a_file_it_is_the_agent_of_ask(server: OpenAIServer) -> None:
    server.replies += ["Thought: so\nFinal Answer: One.", "Thought: so\nFinal Answer: Two."]
    done = piped("first\nsecond\n", "--base-url", server.url, "--strategy", "react")
    assert re.findall(r"Answer: (.*)", done.stdout) == ["One.", "Two."]
    assert "first" in json.dumps(server.requests[-1].body)  # the second question comes with the first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agent", "x"], "--agent names an agent of a file: retinue chat FILE --agent NAME"),
        (["PATH", "--model", "m"], "--model is for a chat without a file; PATH says it of its agents"),
        (["PATH", "--no-stream"], "--stream is for a chat without a file; PATH says it of its agents"),
        (["PATH", "--agent", "gide"], "unknown agent 'gide'; did you mean 'guide'?"),
        (["--rank"], "--rank needs --passages, whose results it ranks"),
    ],
)
def test_options_that_do_not_fit_are_one_line(file: Path, words: list[str], message: str) -> None:
    done = command_line.retinue("chat", *(word.replace("PATH", str(file)) for word in words))
    assert message.replace("PATH", str(file)) in done.stderr
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.full
def test_at_a_terminal_without_the_extra_one_line_says_how_to_get_it(file: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden/prompt_toolkit").mkdir(parents=True)
    (tmp_path / "hidden/prompt_toolkit/__init__.py").write_text("raise ModuleNotFoundError('prompt_toolkit')")
    with Terminal(["chat", file], env={"PYTHONPATH": str(tmp_path / "hidden")}, width=120) as terminal:
        seen = terminal.until("[exit 2]")
    assert "retinue: chatting at a terminal needs the extra 'chat': pip install 'retinue[chat]'" in seen
