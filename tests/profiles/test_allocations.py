"""Allocator events written by hand, with the bytes that they must give."""

from __future__ import annotations

import pytest

from profiles.allocations import Event, Marks, account, blocks, category_of
from suite.components import COMMUNICATION
from suite.memory_categories import CATEGORIES

NO_MARKS = Marks([], [])
NOTHING = dict.fromkeys(CATEGORIES, 0)
#: Three steps; the first and the last are not looked at.
ENDS = [100, 200, 300]
STEPS = [(110, 200)]


def test_what_an_allocation_is_for_follows_from_where_it_was_made() -> None:
    assert category_of("lookup") == category_of("dense_forward") == "activations"
    assert category_of("lookup_backward_optimizer") == category_of("dense_backward") == "gradients"
    assert {category_of(component) for component in COMMUNICATION} == {"communication_buffers"}
    assert category_of("dense_optimizer") == category_of(None) == "other"


def test_the_peak_and_what_it_consists_of() -> None:
    marks = Marks([110, 120, 140, 160], [None, "dense_forward", "dense_backward", None])
    events = [
        Event(121, 1, 100, "activations"),
        Event(130, 2, 50, "activations"),
        Event(131, 2, -50, "activations"),
        Event(150, 3, 70, "gradients"),
        Event(155, 1, -100, "gradients"),
        Event(156, 4, 80, "communication_buffers"),
        Event(170, 3, -70, "other"),
        Event(171, 4, -80, "other"),
    ]
    found, lost = blocks(events, [], ENDS, marks)
    assert lost == []
    profile = account(found, lost, STEPS, marks, {"embedding_weights": 1000, "other": 5})
    lasting = {"embedding_weights": 1000, "other": 5}
    assert profile.at_peak == NOTHING | lasting | {"activations": 100, "gradients": 70}
    assert profile.allocated_peak == 1175
    assert profile.peak_component == "dense_backward"
    assert profile.largest == NOTHING | lasting | {
        "activations": 150,
        "gradients": 70,
        "communication_buffers": 80,
    }
    assert {c: sum(held.values()) for c, held in profile.by_component.items()} == {
        "dense_forward": 1155,
        "dense_backward": 1175,
        "other": 1085,
    }


def test_what_lasts_belongs_to_what_it_holds_wherever_it_was_made() -> None:
    """Moments that a delayed sync keeps are made anew in each sync."""
    events = [
        Event(50, 1, 64, "communication_buffers"),
        Event(150, 2, 64, "communication_buffers"),
        Event(151, 1, -64, "communication_buffers"),
        Event(152, 3, 32, "communication_buffers"),
        Event(160, 3, -32, "other"),
        Event(250, 1, 64, "communication_buffers"),
        Event(251, 2, -64, "communication_buffers"),
    ]
    held = [(end, {at: "embedding_optimizer_state"}) for end, at in zip(ENDS, (1, 2, 1), strict=True)]
    found, lost = blocks(events, held, ENDS, NO_MARKS)
    assert lost == []
    profile = account(found, lost, STEPS, NO_MARKS, {})
    assert profile.at_peak == NOTHING | {"embedding_optimizer_state": 128}
    assert profile.largest["communication_buffers"] == 32


@pytest.mark.parametrize("again", [[Event(250, 1, 10, "activations")], []])
def test_a_free_that_was_not_seen_ends_with_its_step(again: list[Event]) -> None:
    """Seen by the address that is handed out again, or by outliving the next step."""
    events = [
        Event(50, 1, 40, "communication_buffers"),
        Event(150, 2, 30, "activations"),
        Event(160, 2, -30, "activations"),
        *again,
    ]
    found, lost = blocks(events, [], ENDS, NO_MARKS)
    assert lost == [50]
    assert next(block.end for block in found if block.start == 50) == 100
    profile = account(found, lost, STEPS, NO_MARKS, {})
    assert profile.at_peak == NOTHING | {"activations": 30}
    assert profile.unseen_frees == 0


def test_a_free_that_was_not_seen_ends_when_its_component_does() -> None:
    marks = Marks([110, 120, 130, 140, 150], [None, "output_dist", "dense_forward", "output_dist", None])
    events = [Event(125, 1, 40, "communication_buffers"), Event(250, 1, 10, "activations")]
    found, lost = blocks(events, [], ENDS, marks)
    assert lost == [125]
    assert (found[0].start, found[0].end) == (125, 150)


def test_steps_with_unseen_frees_are_looked_at_only_where_all_are_such() -> None:
    events = [
        Event(150, 1, 40, "communication_buffers"),
        Event(160, 2, 10, "activations"),
        Event(165, 2, -10, "activations"),
        Event(250, 2, 10, "activations"),
        Event(255, 2, -10, "activations"),
    ]
    ends = [*ENDS, 400]
    found, lost = blocks(events, [], ends, NO_MARKS)
    assert lost == [150]
    both = account(found, lost, [(110, 200), (210, 300)], NO_MARKS, {})
    assert (both.allocated_peak, both.steps, both.unseen_frees) == (10, 1, 0)
    one = account(found, lost, [(110, 200)], NO_MARKS, {})
    assert (one.allocated_peak, one.steps, one.unseen_frees) == (50, 1, 1)


def test_the_step_with_the_sync_is_looked_at_although_a_free_was_not_seen() -> None:
    """Of two intervals of two steps; the second step of each syncs, and in both a free is lost."""
    steps = [(110, 200), (210, 300), (310, 400), (410, 500)]
    ends = [100, *(end for _, end in steps), 600]
    events = [
        event
        for start, size, lost in ((120, 10, 0), (220, 90, 5), (320, 10, 5), (420, 90, 6))
        for event in (
            Event(start, 1, size, "communication_buffers"),
            Event(start + 1, 1, -size, "communication_buffers"),
            *([Event(start + 2, start, lost, "activations")] if lost else []),
        )
    ]
    found, lost = blocks(events, [], ends, NO_MARKS)
    assert lost == [222, 322, 422]
    profile = account(found, lost, steps, NO_MARKS, {}, sync_interval=2)
    assert profile.at_peak["communication_buffers"] == 90
    assert (profile.steps, profile.unseen_frees) == (3, 1)


def test_a_block_that_is_older_than_the_events_is_not_theirs() -> None:
    found, lost = blocks([Event(120, 9, -500, "other"), Event(130, 1, 8, "other")], [], ENDS, NO_MARKS)
    assert account(found, lost, STEPS, NO_MARKS, {}).allocated_peak == 8


def test_a_step_that_allocates_nothing_has_what_it_begins_with() -> None:
    found, lost = blocks([Event(105, 1, 8, "activations")], [], ENDS, NO_MARKS)
    profile = account(found, lost, STEPS, Marks([], []), {"dense_parameters": 3})
    assert profile.at_peak == NOTHING | {"dense_parameters": 3, "activations": 8}
    assert profile.by_component == {"other": profile.at_peak}
