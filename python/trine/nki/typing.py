"""nki.typing: annotations of tiles, `nt.tensor[128, 512]`. They say something to readers only."""


class tensor:
    def __class_getitem__(cls, shape):
        return cls


class mutable_tensor(tensor):
    """An argument that the kernel writes; every argument may be."""


class scalar:
    def __class_getitem__(cls, given):
        return cls


Tensor = tensor
