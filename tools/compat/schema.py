#!/usr/bin/env python3
"""Reduces OpenCode's OpenAPI document to the interface that the server's tests check.

    tools/compat/schema.py openapi.json > crates/plimsoll-server/tests/it/opencode.json

Keeps the names of all operations, and types, required fields and patterns of what implemented operations answer and of the
events that the server sends. Descriptions, examples and parameters are left out."""

import json
import re
import sys

IMPLEMENTED = """
get /global/health
get /config
get /config/providers
get /experimental/capabilities
get /experimental/console
get /experimental/resource
get /experimental/workspace
get /experimental/workspace/status
get /path
get /vcs
get /command
get /agent
get /skill
get /lsp
get /formatter
get /mcp
get /project
get /project/current
get /project/{projectID}/directories
get /question
get /permission
post /permission/{requestID}/reply
get /provider
get /provider/auth
get /session
post /session
get /session/status
get /session/{sessionID}
delete /session/{sessionID}
patch /session/{sessionID}
get /session/{sessionID}/children
get /session/{sessionID}/todo
get /session/{sessionID}/diff
get /session/{sessionID}/message
post /session/{sessionID}/message
get /session/{sessionID}/message/{messageID}
delete /session/{sessionID}/message/{messageID}
post /session/{sessionID}/fork
post /session/{sessionID}/abort
post /session/{sessionID}/summarize
post /session/{sessionID}/prompt_async
post /session/{sessionID}/command
post /session/{sessionID}/revert
post /session/{sessionID}/unrevert
post /session/{sessionID}/permissions/{permissionID}
delete /session/{sessionID}/message/{messageID}/part/{partID}
patch /session/{sessionID}/message/{messageID}/part/{partID}
get /api/health
get /api/location
get /api/agent
get /api/model
get /api/provider
get /api/integration
get /api/command
get /api/skill
get /api/reference
get /event
get /global/event
""".split("\n")

EVENTS = """
command.executed message.part.delta message.part.removed message.part.updated message.removed message.updated permission.asked permission.replied
server.connected server.instance.disposed session.compacted session.created session.deleted session.error session.idle
session.status session.updated todo.updated tui.toast.show
""".split()

DROPPED = {"description", "title", "examples", "example", "default", "deprecated", "x-websocket"}


def bare(schema):
    """Leaves out text for readers."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: bare(field) for name, field in value.items()}
        elif key not in DROPPED:
            kept[key] = bare(value)
    return kept


def references(schema, found):
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema)):
        found.add(name)


def event_of(schemas):
    """The schema of each event that the server sends, by its type."""
    events = {}
    for name, schema in schemas.items():
        kind = schema.get("properties", {}).get("type", {})
        kind = kind.get("const") or (kind.get("enum") or [None])[0]
        if kind in EVENTS and "properties" in schema.get("properties", {}) and not name.startswith(("V2", "Sync")):
            if "data" not in schema["properties"]:
                events.setdefault(kind, name)
    missing = set(EVENTS) - set(events)
    if missing:
        sys.exit(f"unknown events: {sorted(missing)}")
    return events


def main():
    document = json.load(open(sys.argv[1]))
    schemas = document["components"]["schemas"]
    events = event_of(schemas)
    operations, kept = {}, set(events.values())
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method} {path}"
            operations[name] = None
            if name not in IMPLEMENTED:
                continue
            operations[name] = {}
            for status, answer in operation["responses"].items():
                content = answer.get("content", {})
                schema = content.get("application/json", {}).get("schema")
                operations[name][status] = bare(schema) if "stream" not in json.dumps(list(content)) else None
    unknown = {name for name in IMPLEMENTED if name} - set(operations)
    if unknown:
        sys.exit(f"unknown operations: {sorted(unknown)}")
    references(operations, kept)
    todo, done = sorted(kept), set()
    while todo:
        name = todo.pop()
        if name not in done:
            done.add(name)
            found = set()
            references(bare(schemas[name]), found)
            todo.extend(sorted(found))
    line = lambda value: json.dumps(value, separators=(", ", ": "), sort_keys=True)
    rows = lambda values: ",\n".join(f"    {json.dumps(name)}: {line(values[name])}" for name in sorted(values))
    print("{")
    print(f'  "operations": {{\n{rows(operations)}\n  }},')
    print(f'  "events": {{\n{rows(events)}\n  }},')
    print(f'  "components": {{ "schemas": {{\n{rows({name: bare(schemas[name]) for name in done})}\n  }} }}')
    print("}")


main()
