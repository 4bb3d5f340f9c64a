"""The Helm chart: rendered by Helm with every value of its schema changed, one at a time."""

import copy
import json
import os
import subprocess
import tempfile
import tomllib
from pathlib import Path

import helm_python
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/turnwire"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
# What a user has to name.
LEAST = {
    "store": {"existingSecret": "database"},
    "apiKeys": {"existingSecret": "keys"},
    # Only if it is enabled.
    "serviceMonitor": {"existingSecret": "key"},
}
# The oldest that Chart.yaml promises, and the newest that the schemas know.
VERSIONS = ["1.27", kubernetes_validate.latest_version()]
# Resources of operators, which the schemas of Kubernetes do not have.
FOREIGN = {"ServiceMonitor"}
# Values that only charts around this one read.
UNUSED = {("global",)}


def render(values: dict) -> list[dict]:
    with helm_python.Chart.load(CHART) as chart:
        rendered = chart.render(values, name="release", namespace="agents")
    return [
        resource
        for path, text in sorted(rendered.items())
        if path.endswith(".yaml")
        for resource in yaml.safe_load_all(text)
        if resource
    ]


def leaves(schema: dict, path: tuple = ()):
    """Every value that is no table of further values, with its schema."""
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from leaves(inner, (*path, name))
        else:
            yield (*path, name), inner


def at(values: dict, path: tuple):
    for name in path:
        values = values[name]
    return values


def changed(values: dict, path: tuple, value) -> dict:
    values = copy.deepcopy(values)
    table = values
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = value
    return values


def alternatives(path: tuple, schema: dict) -> list:
    """Other values than the default."""
    if path in UNUSED:
        return schema["examples"]
    default = at(DEFAULTS, path)
    if schema.get("type") == "boolean":
        return [not default]
    others = [value for value in schema.get("enum") or schema["examples"] if value != default]
    assert others, f"{'.'.join(path)} has no other value to try"
    return others


def base_for(path: tuple) -> dict:
    """Values with which the value at `path` matters: its part of the chart is enabled."""
    values = copy.deepcopy(LEAST)
    if len(path) > 1 and path[-1] != "enabled" and "enabled" in DEFAULTS[path[0]]:
        values = changed(values, (path[0], "enabled"), True)
    if path == ("fanout", "key"):
        values = changed(values, ("fanout", "existingSecret"), "news")
    return values


def variants():
    """Every rendering to look at: a name and its values."""
    yield "least", LEAST
    yield "demo", {"demo": True, "apiKeys": LEAST["apiKeys"]}
    switches = [path for path, schema in leaves(SCHEMA) if path[-1] == "enabled"]
    for wanted in (True, False):
        values = LEAST
        for path in switches:
            values = changed(values, path, wanted)
        yield f"all {wanted}", values
    for path, schema in leaves(SCHEMA):
        for value in alternatives(path, schema):
            yield f"{'.'.join(path)} = {value!r}", changed(base_for(path), path, value)


def helm_finds_no_fault():
    """Chart: `helm lint` finds no fault."""
    found = helm_python.lint(CHART, LEAST)
    faults = [m for m in found["messages"] if m["severity"] > 1] + found["errors"]
    assert not faults, faults


def every_rendering_is_valid():
    """Chart: every value changed, and the result valid for Kubernetes."""
    n_renderings = n_resources = 0
    for name, values in variants():
        for resource in render(values):
            kind = resource["kind"]
            n_resources += 1
            if kind in FOREIGN:
                continue
            for version in VERSIONS:
                try:
                    kubernetes_validate.validate(resource, version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    raise AssertionError(f"{name}: {kind}, {version}: {error.message}") from error
        n_renderings += 1
    return f"{n_renderings} renderings, {n_resources} resources, Kubernetes {' and '.join(VERSIONS)}"


def no_value_is_dead():
    """Chart: every value changes what is rendered."""
    dead = []
    for path, schema in leaves(SCHEMA):
        if path in UNUSED:
            continue
        base = base_for(path)
        before = render(base)
        for value in alternatives(path, schema):
            other = changed(base, path, value)
            if other != base and render(other) == before:
                dead.append(f"{'.'.join(path)} = {value!r}")
    assert not dead, dead


def schema_and_defaults_agree():
    """Chart: schema, defaults and README name the same values."""
    known = {path for path, _ in leaves(SCHEMA)} - UNUSED
    for path in known:
        at(DEFAULTS, path)
    for name in DEFAULTS:
        assert name in SCHEMA["properties"], f"{name} is not in the schema"
    readme = (CHART / "README.md").read_text()
    missing = [".".join(path) for path in known if f"`{'.'.join(path)}`" not in readme]
    assert not missing, f"README.md does not name {missing}"


def mistakes_are_refused():
    """Chart: unknown, missing and wrong values are refused with a reason."""
    for values, reason in [
        ({}, "store.existingSecret"),
        ({"store": LEAST["store"]}, "apiKeys.existingSecret"),
        ({**LEAST, "serviceMonitor": {"enabled": True}}, "serviceMonitor.existingSecret"),
        ({**LEAST, "replicas": 3}, "replicas"),
        ({**LEAST, "replicaCount": 0}, "replicaCount"),
        ({**LEAST, "service": {"type": "ExternalName"}}, "service/type"),
    ]:
        try:
            render(values)
        except helm_python.HelmError as error:
            assert reason in str(error), f"{values}: {error}"
        else:
            raise AssertionError(f"{values} was accepted")


def parts_fit_together():
    """Chart: selectors, ports and references name what is there."""
    values = LEAST
    for part in ("ingress", "autoscaling", "serviceMonitor"):
        values = changed(values, (part, "enabled"), True)
    resources = render(values)
    by_kind = {}
    for resource in resources:
        by_kind.setdefault(resource["kind"], []).append(resource)
    pod = by_kind["Deployment"][0]["spec"]["template"]
    labels = pod["metadata"]["labels"].items()
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    for service in by_kind["Service"]:
        assert service["spec"]["selector"].items() <= labels
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for kind, path in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]:
        assert by_kind[kind][0]["spec"][path]["matchLabels"].items() <= labels
    served = {port["name"] for service in by_kind["Service"] for port in service["spec"]["ports"]}
    assert by_kind["ServiceMonitor"][0]["spec"]["endpoints"][0]["port"] in served
    names = {resource["metadata"]["name"] for resource in by_kind["ConfigMap"]}
    assert {v["configMap"]["name"] for v in pod["spec"]["volumes"] if "configMap" in v} <= names
    assert by_kind["HorizontalPodAutoscaler"][0]["spec"]["scaleTargetRef"]["name"] == by_kind["Deployment"][0]["metadata"]["name"]
    assert "replicas" not in by_kind["Deployment"][0]["spec"], "the autoscaler and the chart would disagree"


def the_gateway_reads_its_settings():
    """Chart: its settings file is one that the gateway accepts."""
    settings = next(r for r in render(LEAST) if r["kind"] == "ConfigMap")["data"]["turnwire.toml"]
    tomllib.loads(settings)
    gateway = os.environ.get("TURNWIRE_BIN")
    if not gateway:
        return "TOML only: TURNWIRE_BIN is not set"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "turnwire.toml"
        file.write_text(settings.replace("0.0.0.0:787", "127.0.0.1:0 #").replace(' #8"', '"').replace(' #9"', '"'))
        server = subprocess.Popen(
            [gateway, "serve", "--demo", "--json", "--config", file], cwd=folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        line = server.stdout.readline()
        server.terminate()
        assert "listening" in line, server.stderr.read()
    return None


CHECKS = [
    helm_finds_no_fault,
    every_rendering_is_valid,
    no_value_is_dead,
    schema_and_defaults_agree,
    mistakes_are_refused,
    parts_fit_together,
    the_gateway_reads_its_settings,
]
