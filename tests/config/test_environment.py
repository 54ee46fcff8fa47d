"""Values from the environment: taken when building, marked, and never written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue.config import FileSpec, load_spec
from retinue.config.environment import resolve, resolve_component

TEXT = """\
components:
  - name: Serp
    type: SerpAPIComponent
    params: {api_key: "${SERP_KEY}"}
  - name: my-model
    type: PromptModel
    params:
      model_name_or_path: ${ENGINE}:${MODEL}
      temperature: ${WARMTH}
      options: {user: "${USER_NAME}", list: [1, "${MODEL}"]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> FileSpec:
    path = tmp_path / "file.yml"
    path.write_text(TEXT)
    return load_spec(path)


def test_variables_are_put_in_and_taken_out_again(spec: FileSpec) -> None:
    environ = {"ENGINE": "openai", "MODEL": "gpt", "WARMTH": "0.5", "USER_NAME": "${MODEL}"}
    found = resolve_component(spec, 1, environ)
    assert found.missing == ()
    assert found.value == {
        "model_name_or_path": "openai:gpt",
        "temperature": 0.5,
        "options": {"user": "${MODEL}", "list": [1, "gpt"]},  # what a variable holds is not looked into
    }
    assert spec.components is not None


def test_a_variable_that_is_not_set_is_a_problem_with_its_place(spec: FileSpec) -> None:
    problems = [
        str(spec.source.locate_problem(one))[len(spec.source.file) :] for one in resolve_component(spec, 1, {}).missing
    ]
    assert problems == [
        ":8:27: the environment variable ENGINE is not set",
        ":8:27: the environment variable MODEL is not set",
        ":9:20: the environment variable WARMTH is not set",
        ":10:23: the environment variable USER_NAME is not set",
        ":10:49: the environment variable MODEL is not set",
    ]


def test_a_parameter_can_be_set_from_outside(spec: FileSpec) -> None:
    found = resolve_component(spec, 0, {"SERP_PARAMS_API_KEY": "secret", "SERP_PARAMS_TOP_K": "3"})
    assert found.missing == ()
    assert found.value == {"api_key": "secret", "top_k": 3}
    environ = {"ENGINE": "a", "MODEL": "b", "WARMTH": "1", "USER_NAME": "c", "MY_MODEL_PARAMS_STREAM": "false"}
    assert resolve_component(spec, 1, environ).value["stream"] is False


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        (
            {"SERP_KEY": "k", "SERP_PARAMS_TOP_K": "many"},
            "top_k: the value in the environment is not of kind 'whole number'",
        ),
        ({"SERP_KEY": "k", "SERP_PARAMS_API_KY": "x"}, "SERP_PARAMS_API_KY: unknown parameter of SerpAPIComponent"),
    ],
)
def test_what_does_not_fit_is_a_problem(spec: FileSpec, environ: dict[str, str], problem: str) -> None:
    (found,) = resolve_component(spec, 0, environ).missing
    assert found.message.startswith(problem)
    assert "many" not in found.message  # what the environment holds is not shown


def test_a_name_that_is_none_is_a_problem() -> None:
    (found,) = resolve("${no name}", {}).missing
    assert found.message == "'${no name}' is not a valid variable name; want letters, digits and underscores"
