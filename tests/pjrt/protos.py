"""CompileOptionsProto and DeviceAssignmentProto, written and read by hand: the tests need no protobuf library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def device_assignment(devices: Sequence[Sequence[int]], replicas: int | None = None) -> bytes:
    """devices[replica][partition]."""
    partitions = len(devices[0])
    out = number(1, len(devices) if replicas is None else replicas) + number(2, partitions)
    for partition in range(partitions):
        out += message(3, message(1, b"".join(varint(row[partition]) for row in devices)))
    return out


def compile_options(
    devices: Sequence[Sequence[int]] | None = None,
    *,
    replicas: int | None = None,
    partitions: int | None = None,
    portable: bool = False,
    overrides: dict[str, str] | None = None,
) -> bytes:
    """Without `replicas` and `partitions` the counts are those of the assignment."""
    if replicas is None:
        replicas = len(devices) if devices else 1
    if partitions is None:
        partitions = len(devices[0]) if devices else 1
    build = number(1, -1) + number(4, replicas) + number(5, partitions)
    if devices is not None:
        build += message(9, device_assignment(devices))
    out = message(3, build)
    if portable:
        out += number(4, 1)
    for name, value in (overrides or {}).items():
        out += message(7, message(1, name.encode()) + message(2, message(1, value.encode())))
    return out


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (field number, value) pairs of a message of varints and bytes."""
    position = 0

    def take() -> int:
        nonlocal position
        value, shift = 0, 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        tag = take()
        if tag & 7 == 0:
            yield tag >> 3, take()
        else:
            assert tag & 7 == 2
            size = take()
            yield tag >> 3, data[position : position + size]
            position += size


def read_device_assignment(data: bytes) -> list[list[int]]:
    """The devices of each partition, by replica; the counts must agree."""
    parsed = list(fields(data))
    replicas = next(v for f, v in parsed if f == 1)
    partitions = next(v for f, v in parsed if f == 2)
    columns = []
    for _, computation in (p for p in parsed if p[0] == 3):
        assert isinstance(computation, bytes)
        packed = b"".join(v for _, v in fields(computation) if isinstance(v, bytes))
        columns.append(list(packed))  # small ids: a byte each
    assert len(columns) == partitions
    assert all(len(column) == replicas for column in columns)
    return [[column[replica] for column in columns] for replica in range(int(replicas))]  # type: ignore[arg-type]
