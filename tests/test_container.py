"""The container: the compose file parses, and the image and its services run commands and ask addresses that exist."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import typer
import yaml

from blindspot.app.cli import app
from tests.app_pages import hand_made_study

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def parsed(words: list[str]) -> None:
    """Parse the words of a command line; raises for an unknown command or option."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("blindspot", list(words))


def words_of(instruction: str) -> list[str]:
    """The words of the last instruction of this name in the Dockerfile."""
    return json.loads(re.findall(rf"^{instruction} (\[.*\])$", DOCKERFILE, re.MULTILINE)[-1])


def test_the_image_runs_commands_that_exist():
    assert words_of("ENTRYPOINT") == ["blindspot"]
    parsed(words_of("CMD"))
    python, flag, code = words_of("    CMD")
    assert (python, flag) == ("python", "-c") and ast.parse(code)


def test_the_compose_file_asks_for_no_more_than_it_needs():
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


def test_the_health_check_of_the_service_asks_an_address_that_exists(tmp_path):
    from fastapi.testclient import TestClient

    from blindspot.backend.service.api import make_api
    from blindspot.backend.service.service import Service

    assert "localhost:8600/health'" in COMPOSE["services"]["service"]["healthcheck"]["test"][-1]
    with TestClient(
        make_api(Service(hand_made_study(tmp_path / "study"), "cpu")), base_url="http://localhost:8600"
    ) as client:
        assert client.get("/health").status_code in (200, 503)
