from __future__ import annotations

import json

from suite.schema import PATH, schema_text


def test_the_schema_in_the_repository_is_that_of_the_code():
    assert PATH.read_text() == schema_text(), "write it again with: python -m suite.schema"


def test_it_names_every_field_of_a_record_and_closes_it():
    schema = json.loads(PATH.read_text())
    assert schema["additionalProperties"] is False
    assert {"schema_version", "run_id", "status", "spec_hash", "run", "environment", "launches"} <= set(
        schema["required"]
    )
