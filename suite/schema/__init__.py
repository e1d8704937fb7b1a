"""``record.schema.json`` beside this file: the JSON Schema of ``record.json``, for other languages."""

from __future__ import annotations

import json
from pathlib import Path

from suite.record import RunRecord

PATH = Path(__file__).with_name("record.schema.json")


def schema_text() -> str:
    """The schema as it follows from ``suite.record``."""
    return json.dumps(RunRecord.model_json_schema(mode="serialization"), indent=1, sort_keys=True) + "\n"
