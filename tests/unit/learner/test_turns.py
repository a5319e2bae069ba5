"""The fold and those who ask take turns: nobody waits for more than one turn of the fold."""

import threading

from agent.learner.learner import FairLock


def test_whoever_waits_is_let_in_before_the_fold_goes_on() -> None:
    turns, waits, order = FairLock(), threading.Event(), list[str]()

    def ask() -> None:
        waits.set()
        with turns:
            order.append("answer")

    question = threading.Thread(target=ask)
    with turns:
        question.start()
        waits.wait()
        while not turns._next.locked():  # it is about to wait
            pass
        order.append("slice")
        turns.give_way()
        order.append("slice")
    question.join()
    assert order == ["slice", "answer", "slice"]


def test_a_turn_goes_on_where_nobody_waits() -> None:
    turns = FairLock()
    with turns:
        turns.give_way()
    assert not turns._next.locked()
