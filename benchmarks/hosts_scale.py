"""What a job costs at many processes: counted messages and bytes, and a simulation with measured latencies.

python -m benchmarks.hosts_scale            8, 128, 1,024 and 4,096 processes, 8 on each machine

Nothing is run: the job of that size is simulated. Each process is a clock, and so is each machine's network card in
both directions; a message waits for its sender, its sender's card, the way, the receiver's card and the receiver. The
patterns are those of core/runtime/hosts (exchange.cc, library/collectives.cc), message by message, and what a tree or a
ring would cost stands beside them.

Measured (two cores of an Intel Xeon, Sapphire Rapids class, shared with other programs): a call of JAX's coordinator
90 us, 8 ns a byte of its large answers (key_value_set, blocking_key_value_get between two processes). Estimated from
the latency of collectives of 4 bytes there: a message of MPI takes 2 us of the sender and of the receiver each and 3 us
on the way through shared memory; copies at 8 GB/s. Assumed: 10 us and 10 GB/s (100 Gb Ethernet) between machines, and a
coordinator that answers 8 processes at a time.
"""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np

PER_MACHINE = 8
LINE = 12  # bytes of a process that puts no address of MPI's


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds, and seconds a byte."""

    overhead: float = 2e-6  # of a message, for the sender and for the receiver
    near: float = 3e-6  # on the way, within a machine
    far: float = 10e-6  # between machines
    near_byte: float = 1 / 8e9  # a copy by the receiver
    far_byte: float = 1 / 10e9  # through a network card
    reduce_byte: float = 1 / 5e9  # of an operand
    call: float = 90e-6  # of the coordinator
    call_byte: float = 8e-9
    calls_at_once: int = 8


class Machine:
    """Clocks of processes and cards. A round is a message from each process to one other, all at once."""

    def __init__(self, processes: int, costs: Costs) -> None:
        self.costs = costs
        self.count = processes
        self.host = np.arange(processes) // PER_MACHINE
        self.sent = np.zeros(processes)  # until when each process sends
        self.received = np.zeros(processes)
        hosts = int(self.host[-1]) + 1
        self.card_out = np.zeros(hosts)
        self.card_in = np.zeros(hosts)
        self.messages = 0
        self.bytes = 0

    def round(self, targets: np.ndarray, size: int) -> None:
        """Process i sends ``size`` bytes to ``targets[i]``, after what it has sent before; none if that is itself."""
        costs, sources = self.costs, np.arange(self.count)
        sources = sources[targets != sources]
        targets = targets[sources]
        self.messages += len(sources)
        self.bytes += len(sources) * size
        self.sent[sources] += costs.overhead
        far = self.host[sources] != self.host[targets]
        arrival = self.sent[sources] + np.where(far, costs.far, costs.near)
        if far.any():
            through = size * costs.far_byte
            out = self._queue(self.card_out, self.host[sources[far]], arrival[far], through)
            arrival[far] = self._queue(self.card_in, self.host[targets[far]], out, through)
        work = np.where(far, costs.overhead, costs.overhead + size * costs.near_byte)
        self.received = self._queue_each(self.received, targets, arrival, work)

    @staticmethod
    def _queue(clock: np.ndarray, where: np.ndarray, ready: np.ndarray, work: float) -> np.ndarray:
        """When each of the messages that are ready is through: one at a time at each place, the first first."""
        order = np.lexsort((ready, where))
        place, start = where[order], ready[order]
        first = np.r_[True, place[1:] != place[:-1]]
        number = np.arange(len(place)) - np.maximum.accumulate(
            np.where(first, np.arange(len(place)), 0)
        )
        # end[k] = max over j <= k of the same place of (ready[j] + (k - j + 1) * work), and of the clock
        begin = np.maximum(start, clock[place]) - number * work
        group = np.cumsum(first) - 1
        shift = (np.nanmax(begin) - np.nanmin(begin) + 1) * group  # keeps places apart
        ends = np.maximum.accumulate(begin + shift) - shift + (number + 1) * work
        np.maximum.at(clock, place, ends)
        result = np.empty_like(ends)
        result[order] = ends
        return result

    @staticmethod
    def _queue_each(
        clock: np.ndarray, where: np.ndarray, ready: np.ndarray, work: np.ndarray
    ) -> np.ndarray:
        clock = clock.copy()
        if len(np.unique(where)) == len(where):
            clock[where] = np.maximum(clock[where], ready) + work
            return clock
        for place, start, cost in sorted(zip(where, ready, work, strict=True), key=lambda m: m[1]):
            clock[place] = max(clock[place], start) + cost
        return clock

    def meet(self, work: float = 0) -> float:
        """Everybody waits for what it was sent, and computes. The time when the last one is done."""
        self.sent = self.received = np.maximum(self.sent, self.received) + work
        return float(self.sent.max())


def everybody_to_everybody(machine: Machine, size: int, rotated: bool = True) -> None:
    """A message of each process to each other one: the next one first, or process 0 first."""
    numbers = np.arange(machine.count)
    for step in range(machine.count):
        targets = (numbers + step) % machine.count if rotated else np.full_like(numbers, step)
        machine.round(targets, size)


def all_reduce(processes: int, size: int, costs: Costs, rotated: bool = True) -> Machine:
    """As core/runtime/library/collectives.cc does it."""
    machine = Machine(processes, costs)
    if size * processes <= 16 << 10:
        everybody_to_everybody(machine, size + 128, rotated)
        machine.meet(processes * size * costs.reduce_byte)
        return machine
    part = max(size // processes, 1)
    for work in (processes * part * costs.reduce_byte, 0):
        if part <= 16 << 10:
            everybody_to_everybody(machine, part + 128, rotated)
        else:  # header, data, receipt
            for bytes_of_message in (128, part, 1):
                everybody_to_everybody(machine, bytes_of_message, rotated)
        machine.meet(work)
    return machine


def doubling(processes: int, size: int, costs: Costs) -> Machine:
    """Everybody's operands gathered in log2(processes) rounds, then reduced in order: the same bits."""
    machine = Machine(processes, costs)
    numbers, have = np.arange(processes), 1
    while have < processes:
        machine.round((numbers + have) % processes, min(have, processes - have) * size + 128)
        machine.meet()
        have *= 2
    machine.meet(processes * size * costs.reduce_byte)
    return machine


def ring(processes: int, size: int, costs: Costs) -> Machine:
    """A ring's reduce-scatter and all-gather: each part is reduced in an order of its own, so other bits."""
    machine = Machine(processes, costs)
    after = (np.arange(processes) + 1) % processes
    part = max(size // processes, 1)
    for step in range(2 * (processes - 1)):
        machine.round(after, part + 128)
        machine.meet(2 * part * costs.reduce_byte if step < processes - 1 else 0)
    return machine


@dataclasses.dataclass(frozen=True)
class Start:
    """Calls of the coordinator, bytes that it gives and takes, and the time until the last process has joined."""

    calls: int
    bytes: int
    seconds: float


def start(processes: int, costs: Costs, entry: int = 200, address: int = 1100) -> Start:
    """Topology and MPI's addresses: each is put by all, gathered by process 0, and handed out in one piece.

    entry: bytes that a process tells of itself. address: bytes of MPI's for each machine, which one process puts; the
    others put a line. The processes of one machine exchange MPI's in shared memory.
    """
    calls, total, seconds = 0, 0, 0.0
    machines = -(-processes // PER_MACHINE)
    pieces = [processes * entry]
    if machines > 1:
        pieces.append(machines * address + processes * LINE)
    for piece in pieces:
        one = piece / processes
        puts = -(-(processes - 1) // costs.calls_at_once) * (costs.call + one * costs.call_byte)
        gathered = (processes - 1) * (costs.call + one * costs.call_byte)  # one after the other
        handed = costs.call + piece * costs.call_byte
        seconds += max(puts, gathered) + handed * (1 + -(-(processes - 1) // costs.calls_at_once))
        calls += 3 * (processes - 1) + 1
        total += 2 * (processes - 1) * int(one) + processes * piece
    return Start(calls, total, seconds)


def _time(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds * 1e6:.0f} us"


def _bytes(count: float) -> str:
    for factor, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", default="8,128,1024,4096")
    arguments = parser.parse_args()
    costs = Costs()
    counts = [int(text) for text in arguments.processes.split(",")]
    print("| start | coordinator's calls | its bytes | simulated |\n|---|---|---|---|")
    for count in counts:
        joined = start(count, costs)
        print(
            f"| {count:,} | {joined.calls:,} | {_bytes(joined.bytes)} | {_time(joined.seconds)} |"
        )
    for size in (4, 16 << 20):
        print(
            f"\n| all-reduce of {_bytes(size)} | messages of a process | of all | bytes a process sends | simulated "
            "| from process 0 on | gathered by doubling | ring |\n|---|---|---|---|---|---|---|---|"
        )
        for count in counts:
            found = all_reduce(count, size, costs)
            row = [f"{count:,}", f"{found.messages // count:,}", f"{found.messages:,}"]
            row += [_bytes(found.bytes / count), _time(found.meet())]
            row.append(
                _time(all_reduce(count, size, costs, rotated=False).meet())
                if count <= 1024
                else "-"
            )
            row.append(_time(doubling(count, size, costs).meet()) if size == 4 else "-")
            row.append(_time(ring(count, size, costs).meet()))
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
