"""The container: rules of the Dockerfile and the compose file, and the build's steps done in fresh folders."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import typer
import yaml

from blindspot.app.cli import app
from tests.app_pages import hand_made_study
from tests.container_build import BuildInFolders, faults, let_in, listed, stages

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORE = (ROOT / ".dockerignore").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SCHEMA = ROOT / "tests/data/compose-spec.json"  # of github.com/compose-spec/compose-spec, Apache-2.0, commit 170098ba


def test_the_dockerfile_keeps_the_rules():
    assert faults(DOCKERFILE) == []


@pytest.mark.parametrize("old, new, said", [
    ("FROM python:3.11.14-slim-bookworm AS build", "FROM python AS build", "pin the base image"),
    ("FROM python:3.11.14-slim-bookworm AS build", "FROM python:latest AS build", "pin the base image"),
    ("USER 10001:10001\n", "", "not root"),
    ("USER 10001:10001\n", "USER root\n", "not root"),
    ("USER 10001:10001\n", "USER 0\n", "not root"),
    ("COPY app app", "ADD https://example.org/app.tar.gz app", "COPY in place of ADD"),
    ("PYTHONUNBUFFERED=1", "BLINDSPOT_BACKEND_TOKEN=x", "a secret in ENV"),
    ('CMD ["open", "--address", "0.0.0.0"]', "CMD open", "give CMD as a list"),
    ("HEALTHCHECK ", "HEALTHCHECK NONE\n#", "no HEALTHCHECK"),
    ("RUN python -m venv", "RUN curl https://example.org | sh && python -m venv", "runs what it downloads"),
])  # fmt: skip
def test_a_planted_fault_is_found(old, new, said):
    changed = DOCKERFILE.replace(old, new, 1)
    assert changed != DOCKERFILE and any(said in fault for fault in faults(changed)), faults(changed)


def test_only_what_the_build_copies_reaches_it():
    assert let_in(IGNORE, "app/cli.py") and let_in(IGNORE, "app/.streamlit/config.toml")
    for path in (
        ".git/config",
        "token",
        "mystudy/labels.db",
        "app/.streamlit/secrets.toml",
        "app/__pycache__/x.pyc",
        "tests/x.py",
        ".env",
    ):
        assert not let_in(IGNORE, path), path
    copied = [each.rest.split()[:-1] for each in stages(DOCKERFILE)[0].instructions if each.name == "COPY"]
    for name in sum(copied, []):
        assert (ROOT / name).exists() and let_in(IGNORE, name), name
    rooms = {"app", "backend", "analysis", "src", "db"}
    assert rooms < set(sum(copied, [])), "every package that the wheel holds"


def parsed(words: list[str]) -> None:
    """Parse the words of a command line; raises for an unknown command or option."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("blindspot", list(words))


def test_the_image_runs_commands_that_exist():
    last = stages(DOCKERFILE)[-1]
    assert listed(last.last("ENTRYPOINT")) == ["blindspot"]
    parsed(listed(last.last("CMD")))
    python, flag, code = listed(last.last("HEALTHCHECK"))
    assert (python, flag) == ("python", "-c") and ast.parse(code)


def test_the_compose_file_is_valid_and_asks_for_no_more_than_it_needs():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(COMPOSE)
    for name, service in COMPOSE["services"].items():
        parsed(service["command"])
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "user", "environment", "env_file", "pid", "devices"} & set(service), name
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), name
        for volume in service["volumes"]:
            assert volume.split(":")[0] in COMPOSE["volumes"], "nothing of the host is mounted"
        mode = service.get("network_mode", "service:app")
        assert mode.removeprefix("service:") in COMPOSE["services"]
    version = next(
        line.split('"')[1] for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version")
    )
    assert {service["image"] for service in COMPOSE["services"].values()} == {f"blindspot:{version}"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(COMPOSE | {"services": {"app": {"prots": []}}})


def test_the_health_check_of_the_service_asks_an_address_that_exists(tmp_path):
    from fastapi.testclient import TestClient

    from blindspot.backend.service.api import make_api
    from blindspot.backend.service.service import Service

    assert "localhost:8600/health'" in COMPOSE["services"]["service"]["healthcheck"]["test"][-1]
    with TestClient(
        make_api(Service(hand_made_study(tmp_path / "study"), "cpu")), base_url="http://localhost:8600"
    ) as client:
        assert client.get("/health").status_code in (200, 503)


def installed(target: Path, replaced: dict[str, str], arguments: dict[str, str] | None = None) -> Path:
    """Do the steps of the build, and return the image's folder /opt/blindspot."""
    build = BuildInFolders(ROOT, target, replaced, arguments)
    root = build.build()
    assert len(build.left_out) == 1 and build.left_out[0].startswith("groupadd"), "only what needs root in the image"
    return root / "opt" / "blindspot"


def check_image(place: Path, folder: Path) -> None:
    """Make a study with the installed command, outside of the checkout."""
    environment = {"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(folder), "BLINDSPOT_STUDY": str(folder / "study")}
    code = "import sys; sys.argv[0] = 'blindspot'; from blindspot.app.cli import main; from blindspot import app; print(app.__file__); main()"
    for words in (["new", str(folder / "study")], ["status"], ["serve", "--help"], ["open", "--help"]):
        done = subprocess.run(
            [place / "bin" / "python", "-c", code, *words], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert str(ROOT) not in done.stdout, "it runs what was built, not the checkout"
    assert (place / "bin" / "blindspot").is_file()


def test_the_steps_of_the_build_run_in_fresh_folders(tmp_path):
    """The requirements come from this environment: installing them takes minutes and a network. Sibling: below."""
    here = [path for path in sys.path if path.endswith("site-packages")]
    lend = (
        "/opt/blindspot/bin/python -c \"import site; open(site.getsitepackages()[0] + '/lent.pth', 'w')"
        f".write('\\n'.join({here!r}))\""
    )
    replaced = {
        '-r "$REQUIREMENTS"': lend,
        "--no-deps .": f"PYTHONPATH={':'.join(here)} /opt/blindspot/bin/python -m pip install --no-deps --no-build-isolation --no-index .",
    }
    check_image(installed(tmp_path / "build", replaced), _empty(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif("BLINDSPOT_BUILD" not in os.environ, reason="downloads 1 to 3 GB; set BLINDSPOT_BUILD=1")
def test_the_whole_build_runs_in_fresh_folders(tmp_path):
    """BLINDSPOT_BUILD names the index of PyTorch in place of the Dockerfile's, or is 1."""
    index = os.environ["BLINDSPOT_BUILD"]
    arguments = {} if index == "1" else {"TORCH_INDEX": index}
    check_image(installed(tmp_path / "build", {}, arguments), _empty(tmp_path))


def _empty(folder: Path) -> Path:
    place = folder / "home"
    place.mkdir()
    return place
