"""``python -m suite.schema`` writes the schema again after a change of ``suite.record`` or ``suite.spec``."""

from __future__ import annotations

from suite.schema import PATH, schema_text

if __name__ == "__main__":
    PATH.write_text(schema_text(), encoding="utf-8")
