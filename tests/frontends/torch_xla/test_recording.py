"""What is left out while operations are recorded, and what is not."""

from __future__ import annotations

import threading

import torch
from torch.autograd import profiler
from tripont.frontends.torch_xla import recording

STEP = "Optimizer.step#SGD.step"


def _train() -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device="xla"))
    optimizer = torch.optim.SGD([parameter], 0.1)
    parameter.sum().backward()
    with profiler.record_function("of the user"):
        optimizer.step()


def test_gradients_are_recorded_on_the_callers_thread():
    threads = []
    x = torch.ones(3, device="xla", requires_grad=True)
    y = x * 2
    y.register_hook(lambda _: threads.append(threading.get_ident()))
    y.sum().backward()
    assert threads == [threading.get_ident()]
    assert x.grad.cpu().tolist() == [2, 2, 2]


def test_a_profile_has_the_optimizers_steps():
    _train()
    with profiler.profile() as profile:
        _train()
    names = [event.name for event in profile.function_events]
    assert names.count(STEP) == 1
    assert names.count("of the user") == 1


def test_without_a_profile_only_the_users_names_are_given(monkeypatch):
    given = []
    original = profiler.record_function.__enter__.__wrapped__

    def recorded(self):
        given.append(self.name)
        return original(self)

    monkeypatch.setattr(profiler.record_function, "__enter__", recorded)
    recording.install()
    _train()
    assert given == ["of the user"]


def test_a_profile_that_starts_or_ends_inside_of_a_step():
    name = "Optimizer.step#Mine.step"
    with profiler.record_function(name), profiler.profile() as profile:
        torch.ones(3)
    assert name not in [event.name for event in profile.function_events]
    profile = profiler.profile()
    profile.__enter__()
    with profiler.record_function(name):
        profile.__exit__(None, None, None)


def test_installing_twice_changes_nothing():
    before = profiler.record_function.__enter__
    recording.install()
    assert profiler.record_function.__enter__ is before
