"""Which part of the model each process computes when: GPipe, 1F1B and interleaved 1F1B.

The model is a chain of chunks. With S processes and V chunks in each, chunk c is on process c % S. Every batch is cut
into M microbatches, and each of them goes forward through all chunks and then backward. A schedule is the order of
these actions on each process; :func:`simulate` says when they begin, if each takes a given time.

The share of time that processes wait, the bubble, is (S - 1) / (V M + S - 1) where a chunk takes equally long
everywhere: GPipe and 1F1B have V = 1, and 1F1B holds the activations of at most S microbatches instead of M.
(GPipe: Huang et al. 2019; 1F1B: Narayanan et al., PipeDream 2019; interleaved: Narayanan et al., Megatron-LM 2021.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

NAMES = ("gpipe", "1f1b", "interleaved")


@dataclasses.dataclass(frozen=True)
class Action:
    """One chunk on one microbatch."""

    forward: bool
    chunk: int
    microbatch: int

    def needs(self, chunks: int) -> list[Action]:
        """What must be done before, on whatever process."""
        if self.forward:
            return [Action(True, self.chunk - 1, self.microbatch)] if self.chunk > 0 else []
        own = Action(True, self.chunk, self.microbatch)
        if self.chunk == chunks - 1:
            return [own]
        return [own, Action(False, self.chunk + 1, self.microbatch)]


def chunks_of_process(name: str) -> int:
    """V: how many chunks each process has."""
    return 2 if name == "interleaved" else 1


def bubble(name: str, processes: int, microbatches: int) -> float:
    """The share of time that a process waits, if every action of a kind takes equally long."""
    return (processes - 1) / (chunks_of_process(name) * microbatches + processes - 1)


def schedule(name: str, processes: int, microbatches: int) -> list[list[Action]]:
    """The actions of each process, in order."""
    return [_of_process(name, processes, microbatches, p) for p in range(processes)]


def _of_process(name: str, processes: int, microbatches: int, process: int) -> list[Action]:
    if name == "gpipe":
        numbers = range(microbatches)
        forward = [Action(True, process, m) for m in numbers]
        return forward + [Action(False, process, m) for m in numbers]
    own = chunks_of_process(name)
    if own > 1 and microbatches % processes:
        raise ValueError(
            f"an interleaved schedule of {processes} processes takes a multiple of {processes} microbatches, "
            f"not {microbatches}"
        )

    # Microbatches go in groups as large as there are processes: a group through one chunk, then through the next.
    def action(forward: bool, number: int) -> Action:
        group, rest = divmod(number, processes * own)
        chunk, within = divmod(rest, processes)
        if own == 1:
            return Action(forward, process, number)
        chunk = chunk if forward else own - 1 - chunk
        return Action(forward, chunk * processes + process, group * processes + within)

    total = own * microbatches
    ahead = processes - process - 1
    if own > 1:
        ahead = 2 * ahead + (own - 1) * processes
    ahead = min(ahead, total)
    actions = [action(True, n) for n in range(ahead)]
    for n in range(ahead, total):
        actions += [action(True, n), action(False, n - ahead)]
    return actions + [action(False, n) for n in range(total - ahead, total)]


def simulate(
    actions: Sequence[Sequence[Action]], forward: float = 1.0, backward: float = 2.0
) -> dict[Action, tuple[float, float]]:
    """When each action begins and ends. ValueError if the processes would wait for one another for ever."""
    chunks = 1 + max(a.chunk for of_process in actions for a in of_process)
    times: dict[Action, tuple[float, float]] = {}
    free = [0.0] * len(actions)
    next_one = [0] * len(actions)
    left = sum(map(len, actions))
    while left:
        before = left
        for process, of_process in enumerate(actions):
            while next_one[process] < len(of_process):
                action = of_process[next_one[process]]
                needed = action.needs(chunks)
                if any(a not in times for a in needed):
                    break
                begin = max([free[process], *(times[a][1] for a in needed)])
                free[process] = begin + (forward if action.forward else backward)
                times[action] = (begin, free[process])
                next_one[process] += 1
                left -= 1
        if left == before:
            raise ValueError("the schedule never ends: every process waits for another")
    return times


def in_order(actions: Sequence[Sequence[Action]]) -> list[tuple[int, Action]]:
    """All processes' actions in one order that respects what they need, each with its process."""
    times = simulate(actions)
    found = [(p, a) for p, of_process in enumerate(actions) for a in of_process]
    return sorted(found, key=lambda one: (times[one[1]], one[0]))
