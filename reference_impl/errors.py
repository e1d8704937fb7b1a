"""The one error this package raises for a configuration it cannot run."""

from __future__ import annotations


class InvalidConfiguration(ValueError):
    """A layout, plan or optimizer that cannot work, found before anything is built.

    Attributes:
        field: dotted name of what is wrong, for example ``layout.replica_groups``.
        value: the offending value.
        message: what is wrong with it.
        remedy: what to do instead.
    """

    def __init__(self, field: str, value: object, message: str, remedy: str) -> None:
        super().__init__(f"{field} = {value!r}: {message} {remedy}")
        self.field = field
        self.value = value
        self.message = message
        self.remedy = remedy
