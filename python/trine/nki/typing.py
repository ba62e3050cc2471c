"""nki.typing: annotations of tiles, `nt.tensor[128, 512]`. They say something to readers only."""


class tensor:
    def __class_getitem__(cls, shape):
        return cls
