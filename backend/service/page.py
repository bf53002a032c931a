"""Make the documentation page of the HTTP interface from its OpenAPI description. The page loads nothing from other
sites.
"""

from __future__ import annotations

import json
from html import escape

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark; }
h2 code { font-size: 1.1rem; } pre { overflow-x: auto; padding: .8rem; border: 1px solid #8886; border-radius: 6px; }
td, th { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; } td:first-child { white-space: nowrap; }
"""


def api_page(description: dict) -> str:
    """Return the HTML page of an OpenAPI description."""
    schemas = description["components"]["schemas"]
    parts = [
        f"<h1>{escape(description['info']['title'])}</h1><p>{escape(description['info']['description'])} "
        'For tools: <a href="openapi.json">openapi.json</a>.</p>'
    ]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} "
                f"{escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
            )
            parts.append(_parameters(operation.get("parameters", [])))
            if "requestBody" in operation:
                sent = _schema(operation["requestBody"], schemas)
                parts += [_fields("Send", sent), _example(path, sent)] if "properties" in sent else []
            success = next(response for code, response in operation["responses"].items() if code.startswith("2"))
            parts.append(_fields("Answer", _schema(success, schemas)))
            parts.append(_errors(operation["responses"]))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width">'
        f"<title>{escape(description['info']['title'])}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _schema(body: dict, schemas: dict) -> dict:
    content: dict[str, dict] = body.get("content", {})
    schema: dict = next((kind.get("schema", {}) for kind in content.values()), {})
    return schemas[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema


def _fields(heading: str, schema: dict) -> str:
    required = schema.get("required", [])
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}</td><td>{escape(field.get('description', ''))}"
        f"{_limits(field, heading == 'Send' and name in required)}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    ]
    about = escape(" ".join(schema.get("description", "").split()))
    return f"<h3>{heading}</h3><p>{about}</p><table>{''.join(rows)}</table>" if rows else ""


def _parameters(parameters: list[dict]) -> str:
    rows = [
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(_kind(each['schema']))}</td>"
        f"<td>{escape(each.get('description', ''))}{_limits(each['schema'], each.get('required', False))}</td></tr>"
        for each in parameters
    ]
    return f"<h3>In the address</h3><table>{''.join(rows)}</table>" if rows else ""


def _kind(field: dict) -> str:
    if "anyOf" in field:
        return next(_kind(kind) for kind in field["anyOf"] if kind.get("type") != "null")
    if field.get("type") == "array":
        return f"list of {_kind(field['items'])}"
    return {"string": "text", "integer": "whole number", "number": "number"}.get(field.get("type", ""), "object")


def _limits(field: dict, required: bool) -> str:
    of_items = field.get("items", {})
    limits = [
        " Required." if required else "",
        f" Default {field['default']}." if field.get("default") is not None else "",
        f" {field['minimum']:g} to {field['maximum']:,.0f}." if "maximum" in field else "",
        f" At most {field['maxItems']}." if "maxItems" in field else "",
        f" Each at most {of_items['maxLength']:,} characters." if "maxLength" in of_items else "",
    ]
    return escape("".join(limits))


def _example(path: str, schema: dict) -> str:
    body = json.dumps(schema.get("example", {}))
    command = (
        "curl -H 'Content-Type: application/json' -H \"Authorization: Bearer $BLINDSPOT_BACKEND_TOKEN\" \\\n  "
        f"-d '{body}' URL{path}"
    )
    return f"<pre>{escape(command)}</pre>"


def _errors(responses: dict) -> str:
    rows = [
        f"<tr><td>{code}</td><td>{escape(response['description'])}</td></tr>"
        for code, response in responses.items()
        if not code.startswith("2")
    ]
    return f"<h3>Errors</h3><table>{''.join(rows)}</table>" if rows else ""
