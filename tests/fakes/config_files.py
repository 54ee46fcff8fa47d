"""Files of agents as the seeds write them."""

from __future__ import annotations

from pathlib import Path

SEED = Path(__file__).parents[1] / "data" / "formats" / "haystack_3925_agent.yml"
OPEA_AGENTS = """\
retinue: 1
tools: tools
agents:
  - name: supervisor
    params:
      strategy: react
      require_human_feedback: false
      llm_endpoint_url: http://localhost:8080
      llm_engine: tgi
      llm_model_id: meta-llama/Meta-Llama-3-8B-Instruct
      role_description: LLM enhanced agent
      recursion_limit: 12
      temperature: 0.01
      max_new_tokens: 1024
      stream: true
      timeout: 60
      custom_prompt: |
        You are a music expert.
      tools:
        - tools/supervisor.yaml
        - calculator
        - name: ask_worker
          pipeline_or_node: worker
          description: Knows the documents.
          effects: read
  - name: worker
    params: {model: local, tools: tools/worker.yaml, budget: {steps: 4, seconds: 30}}
  - name: planner
    params: {role: planner, script: [{finish: done}]}
  - name: executor
    params:
      role: executor
      tools:
        weather: {callable_api: "http://localhost:9000/weather", description: The weather of a city.}
"""


def opea(folder: Path) -> Path:
    """A file of agents with two tool files, in `folder`; the Python files must not be imported."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("supervisor", "worker"):
        data = (SEED.parent / f"opea_{name}_agent_tools.yaml").read_text("utf-8")
        (tools / f"{name}.yaml").write_text(data.replace("search_knowledge_base:", f"search_{name}:", 1))
    for name in ("tools.py", "worker_agent_tools.py"):
        (tools / name).write_text("raise SystemExit('not to be imported')\n")
    path = folder / "agents.yml"
    path.write_text(OPEA_AGENTS)
    return path
