"""What a metric is: a pure function of one launch, with a name, a unit and a direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from suite.errors import ErrorReport, SuiteError
from suite.record import LaunchRecord, RunRecord
from suite.spec import RunSpec

Direction = Literal["higher", "lower"]
#: What a comparison does with a metric: it decides the verdict; or it is listed to explain it, judged in a
#: family of its own; or it is a figure that a comparison leaves out.
Role = Literal["verdict", "detail", "figure"]


@dataclass(frozen=True)
class Metric:
    """One figure computed from a record, never stored in it.

    Attributes:
        name: stable name that others script against, for example ``memory.process``.
        unit: of the values.
        direction: which way is better.
        deterministic: the same spec and seed on the same stack give the same value, so two values are
            compared exactly. Otherwise each launch is one sample of a noisy quantity.
        of_launch: its value in one finished launch, None where that launch did not measure it.
        margin: the difference that does not matter. For a noisy metric a share of the value; for a
            deterministic one an absolute difference, used where exact equality cannot be expected (a
            model trained in another layout). None: every difference counts.
        floor: a model not beyond this value has learnt next to nothing; two of them are not called
            equivalent. None: no such value.
        role: its part in a comparison. Every metric that is judged makes it harder to tell any of them from
            noise, so the many that only explain others do not count with those that decide.
    """

    name: str
    unit: str
    direction: Direction
    deterministic: bool
    of_launch: Callable[[RunSpec, LaunchRecord], float | None]
    margin: float | None = None
    floor: float | None = None
    role: Role = "verdict"

    def values(self, record: RunRecord) -> list[float]:
        """One value for each finished launch that measured it.

        Raises:
            SuiteError: of kind ``internal``: the metric cannot be computed.
        """
        try:
            found = [self.of_launch(record.run, x) for x in record.launches if x.status == "complete"]
        except Exception as error:
            raise SuiteError(
                ErrorReport(
                    kind="internal",
                    field="metric",
                    value=self.name,
                    message=f"it cannot be computed from {record.run_id}: {type(error).__name__}: {error}.",
                    remedy="Mend its of_launch; --debug shows where. The record is kept.",
                )
            ) from error
        return [value for value in found if value is not None]
