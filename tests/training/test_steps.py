"""Which images a step gets: every one once an epoch, shared between processes, in an order that the seed fixes."""

from __future__ import annotations

from nonneg_training.setup.batch_order import Steps
from nonneg_training.setup.process_group import ProcessGroup


def test_an_epoch_sees_every_image_once_and_the_next_in_another_order() -> None:
    plan = Steps(images=24, batch=4, accumulate=2, epochs=2, seed=0, world=ProcessGroup())
    assert (plan.per_epoch, plan.total) == (3, 6)
    epochs = [
        [i for step in steps for part in (0, 1) for i in plan.indices(step, part)] for steps in ((0, 1, 2), (3, 4, 5))
    ]
    assert all(sorted(epoch) == list(range(24)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_processes_share_a_batch_and_together_see_what_one_would() -> None:
    alone = Steps(24, 8, 1, 1, seed=3, world=ProcessGroup())
    shared = [Steps(24, 8, 1, 1, seed=3, world=ProcessGroup(rank, 2)) for rank in (0, 1)]
    for step in range(3):
        assert shared[0].indices(step) + shared[1].indices(step) == alone.indices(step)


def test_the_seed_decides() -> None:
    first, second = (Steps(24, 8, 1, 1, seed, ProcessGroup()).indices(0) for seed in (0, 1))
    assert first != second
