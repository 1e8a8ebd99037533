"""XSpace, the message of profiles (tsl/profiler/protobuf/xplane.proto), read without a protobuf library."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from .protos import fields


@dataclass
class Event:
    """Times in nanoseconds: `start` since 1970. stats: those of this event and those of all of its kind."""

    name: str
    start: float
    duration: float
    stats: dict[str, Any]


@dataclass
class Plane:
    name: str
    stats: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, list[Event]] = field(default_factory=dict)
    # Of each kind of events, by name.
    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)


def read(data: bytes) -> dict[str, Plane]:
    """The planes by name."""
    planes = [_plane(value) for number, value in fields(data) if number == 1]  # type: ignore[arg-type]
    assert len({p.name for p in planes}) == len(planes)
    return {p.name: p for p in planes}


def _grouped(data: bytes) -> dict[int, list[Any]]:
    groups: dict[int, list[Any]] = defaultdict(list)
    for number, value in fields(data):
        groups[number].append(value)
    return groups


def _map(entries: list[bytes]) -> dict[int, dict[int, list[Any]]]:
    parsed = [_grouped(entry) for entry in entries]
    return {entry[1][0]: _grouped(entry[2][0]) for entry in parsed}


def _plane(data: bytes) -> Plane:
    plane = _grouped(data)
    names = {key: value[2][0].decode() for key, value in _map(plane[5]).items()}
    metadata = _map(plane[4])

    def stats(encoded: list[bytes]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for one in map(_grouped, encoded):
            name = names[one[1][0]]
            assert name not in result
            (kind,) = set(one) - {1}
            value = one[kind][0]
            result[name] = {3: lambda v: v, 5: bytes.decode, 6: bytes, 7: names.get}[kind](value)
        return result

    read = Plane(plane[2][0].decode(), stats(plane[6]))
    for key, kind in metadata.items():
        assert kind[1] == [key]
        read.kinds.setdefault(kind[2][0].decode(), {}).update(stats(kind[5]))
    for line in map(_grouped, plane[3]):
        (start,) = line[3]
        events = []
        for event in map(_grouped, line[4]):
            kind = metadata[event[1][0]]
            events.append(
                Event(
                    kind[2][0].decode(),
                    start + event[2][0] / 1000,
                    event[3][0] / 1000,
                    stats(kind[5]) | stats(event[4]),
                )
            )
        read.lines.setdefault(line[2][0].decode(), []).extend(events)
    return read
