"""Protocol buffers by hand: a field is a number, a kind and bytes. Enough for traces, and no compiler is needed."""

import struct


def varint(n) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, value) -> bytes:
    """An integer or a bool."""
    return varint(field << 3) + varint(int(value))


def text(field, value) -> bytes:
    """A string, bytes or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def fixed64(field, value) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<Q", value & (1 << 64) - 1)


def double(field, value) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)
