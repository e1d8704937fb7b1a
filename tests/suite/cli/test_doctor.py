from __future__ import annotations

import pytest

from suite.doctor import Check

FINE = Check(name="gloo", status="ok", message="available.")
ODD = Check(name="host name", status="warn", message="is 127.0.0.1.", remedy="Give it an address.")
BROKEN = Check(name="versions", status="fail", message="do not pair.", remedy="Install others.")


@pytest.mark.parametrize(("checks", "code"), [([FINE], 0), ([FINE, ODD], 0), ([FINE, BROKEN, ODD], 2)])
@pytest.mark.parametrize("as_json", [True, False])
def test_only_what_is_broken_fails(checks, code, as_json, cli, monkeypatch):
    monkeypatch.setattr("suite.cli.doctor.examine", lambda runs: iter(checks))
    done = cli("doctor", *(["--json"] if as_json else []))
    assert done.code == code
    if as_json:
        assert done.document["checks"] == [check.model_dump() for check in checks]
        assert done.document["exit_code"] == code
        assert ("error" in done.document) == (code == 2)
    else:
        for check in checks:
            assert check.message in done.out
            assert check.remedy is None or check.remedy in done.out


def test_the_error_names_what_is_broken(cli, monkeypatch):
    monkeypatch.setattr("suite.cli.doctor.examine", lambda runs: iter([ODD, BROKEN]))
    error = cli("doctor", "--json").document["error"]
    assert (error["field"], error["message"], error["remedy"]) == (
        "versions",
        "do not pair.",
        "Install others.",
    )
