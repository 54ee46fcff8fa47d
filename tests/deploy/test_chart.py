"""What holds of the chart whatever the values: its schema is closed, its pods are restricted, its secrets are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from jsonschema import Draft7Validator

from chart_check.schema_walk import names, objects, value_at
from fakes.rendered_chart import SETS, manifests, pod

CHART = Path(__file__).parents[2] / "deploy" / "chart"
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
NAMES = [path for path in names(SCHEMA) if path[0] != "global"]


def test_every_object_of_the_schema_is_closed_or_a_map() -> None:
    open_ones = [one for one in objects(SCHEMA) if one.get("additionalProperties", True) is True]
    assert open_ones == [SCHEMA["properties"]["global"]]


def test_the_schema_has_the_values_and_no_others() -> None:
    def given_names(values: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        if not isinstance(values, dict):
            return set()
        return {(*path, name) for name in values}.union(*(given_names(one, (*path, n)) for n, one in values.items()))

    optional = {"ephemeral-storage", "cpu"}  # of resources
    known = {path for path in NAMES if "[]" not in path and path[-1] not in optional}
    assert {path for path in given_names(VALUES) if path[-1] not in optional} == known
    assert not list(Draft7Validator(SCHEMA).iter_errors(VALUES))


@given(st.sampled_from(NAMES), st.data())
def test_a_misspelt_value_is_refused_by_its_name(path: tuple[str, ...], data: st.DataObject) -> None:
    siblings = {one[-1] for one in NAMES if one[:-1] == path[:-1]} | {"global"}
    at = data.draw(st.integers(0, len(path[-1])))
    wrong = path[-1][:at] + data.draw(st.sampled_from("aeinrstXY_-")) + path[-1][at + 1 :]
    if wrong in siblings:
        return
    errors = Draft7Validator(SCHEMA).iter_errors(value_at((*path[:-1], wrong), 1))
    assert any(f"'{wrong}'" in error.message for error in errors)


@pytest.mark.parametrize("values", SETS)
def test_pods_are_restricted(values: str) -> None:
    for one in [*manifests(values, "Deployment"), *manifests(values, "Job")]:
        spec = one["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (only,) = spec["containers"]
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in only["resources"]["limits"]


@pytest.mark.parametrize("values", SETS)
def test_the_chart_makes_no_secret(values: str) -> None:
    assert not manifests(values, "Secret")


@pytest.mark.parametrize("values", SETS)
def test_only_servers_get_the_keys_of_clients(values: str) -> None:
    (worker,) = pod(values, "worker")["containers"]
    assert "RETINUE_API_KEYS" not in [one["name"] for one in worker["env"]]


@pytest.mark.parametrize("values", SETS)
def test_a_pod_has_time_to_end(values: str) -> None:
    for component in ("server", "worker"):
        spec = pod(values, component)
        (only,) = spec["containers"]
        (grace,) = [int(word.partition("=")[2]) for word in only["args"] if word.startswith("--grace=")]
        delay = int(only.get("lifecycle", {"preStop": {"exec": {"command": ["0"]}}})["preStop"]["exec"]["command"][-1])
        assert spec["terminationGracePeriodSeconds"] == delay + grace + 15


def test_traffic_is_denied_to_all_pods_of_the_release() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in manifests("minimal", "NetworkPolicy")}
    everything = policies["agents-retinue"]
    assert everything["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in everything
    assert "egress" not in everything
    for one in [*manifests("minimal", "Deployment"), *manifests("minimal", "Job")]:
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert everything["podSelector"]["matchLabels"].items() <= labels.items()
    assert "ingress" not in policies["agents-retinue-worker"]
    ports = [port["port"] for rule in policies["agents-retinue-migration"]["egress"] for port in rule["ports"]]
    assert ports == [53, 53, 5432]
