"""nki.typing: `tensor[128, 512]` annotates; `tensor[[128, 512], nl.bfloat16]` stands for an argument of that shape."""

from trine.nki import arrays, dtypes


class tensor:
    def __class_getitem__(cls, given):
        if isinstance(given, tuple) and len(given) == 2 and dtypes.find(given[1]) is not None:
            return arrays.ShapeDtype(given[0], given[1])
        return cls


class mutable_tensor(tensor):
    """An argument that the kernel writes."""


class scalar:
    def __class_getitem__(cls, given):
        return cls
