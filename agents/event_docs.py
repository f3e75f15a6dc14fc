"""What docs/ says of events, made of their records: `python -m agents.event_docs` writes it into the current folder's
docs/events.schema.json and between the marks of docs/events.md."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime
from pydantic.fields import FieldInfo

from agents.event_line import BOUND, VERSION, Line
from agents.event_schema import RECORD, RECORDS

BEGIN, END = "<!-- made by `python -m agents.event_docs`: begin -->", "<!-- end -->"
_COMMON = ("event", "v", "time")


def schema() -> str:
    """The JSON Schema (2020-12) of a line, as a file's text."""
    made: dict[str, Any] = RECORD.json_schema()
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of warpsmith's events.jsonl, version {VERSION}",
    }
    return json.dumps(head | made, indent=1) + "\n"


def tables() -> str:
    """One table of what every line has, and one for each kind, in Markdown."""
    head = ["", "| field | type | meaning |", "| --- | --- | --- |"]
    parts = ["### Every line", *head, "| `event` | string | the kind |"]
    parts += [_row(name, Line.model_fields[name]) for name in ("v", "time", *BOUND)]
    for kind, record in RECORDS.items():
        own = [name for name in record.model_fields if name not in _COMMON and not _is_inherited(record, name)]
        parts += ["", f"### `{kind}`", "", _text(record.__doc__), *head]
        parts += [_row(name, record.model_fields[name]) for name in own]
    return "\n".join(parts) + "\n"


def renewed(page: str) -> str:
    """The page with today's tables between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def _is_inherited(record: type[Line], name: str) -> bool:
    """Whether the field is only what any line may have."""
    return name in BOUND and record.model_fields[name].annotation == Line.model_fields[name].annotation


def _row(name: str, field: FieldInfo) -> str:
    absent = "" if field.is_required() else ", may be absent"
    return f"| `{name}` | {_type(field.annotation, not field.is_required())}{absent} | {_text(field.description)} |"


def _type(of: Any, optional: bool = False) -> str:
    """A type as JSON has it. optional: None is a way to say that the field is absent."""
    origin, parts = get_origin(of), get_args(of)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(p) for p in parts if not (optional and p is type(None))))
    if origin is Literal:
        return ", ".join(f"`{json.dumps(part)}`" for part in parts)
    if origin is list:
        return f"list of {_type(parts[0])}"
    if origin is dict:
        return f"object of {_type(parts[1])}"
    plain = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", AwareDatetime: "time"}
    return plain.get(of, "object") if isinstance(of, type) or of in plain else "value"


def _text(doc: str | None) -> str:
    return " ".join((doc or "").split()).replace("|", "\\|")


def main() -> None:
    docs = Path("docs")
    (docs / "events.schema.json").write_text(schema(), encoding="utf-8")
    page = docs / "events.md"
    page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
