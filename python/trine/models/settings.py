"""What a model is, in one vocabulary for all families: sizes and choices, hashable, without weights and without JAX.

`families.py` reads them from a configuration; the model functions take them as a static argument.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rope:
    """Rotary positions; `kind` is how frequencies are stretched past the context the model was trained on."""

    theta: float = 10000.0
    share: float = 1.0  # of the head's dims that turn
    kind: str = "default"  # linear, llama3, yarn, longrope
    factor: float = 1.0
    original: int = 0  # context of the first training
    low: float = 1.0  # llama3: frequencies below are stretched; yarn: beta_slow
    high: float = 4.0  # llama3: frequencies above are kept; yarn: beta_fast
    short: tuple = ()  # longrope: a factor per frequency, up to the original context
    long: tuple = ()  # and past it
    attention: float = 0.0  # factor of sine and cosine; 0: by the kind's formula


@dataclass(frozen=True)
class Transformer:
    """A stack of blocks with what goes before and after it: decoders, encoders, either half of T5, ViT and CLIP."""

    width: int
    layers: int
    heads: int
    ffn: int
    vocab: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    context: int = 0
    causal: bool = True
    norm: str = "layer"  # rms; rms1: RMS norm times 1 + scale
    eps: float = 1e-5
    positions: str = "rope"  # learned, alibi, relative
    position_offset: int = 0
    rope: Rope = Rope()
    buckets: int = 32  # relative positions: how many, and from which distance on there is one
    distance: int = 128
    activation: str = "gelu"
    gated: bool = False
    qkv_bias: bool = True
    o_bias: bool = True
    mlp_bias: bool = True
    block: str = "pre"  # post: norm of the sum; parallel: attention beside the MLP; normed: norm of what is added
    norms: int = 2  # per block; 1 in a parallel one: shared
    qk_norm: str = ""  # head: over each head; whole: over all of them
    score_scale: float = 0.0  # 0: head_dim ** -0.5
    window: int = 0  # keys each query sees; 0: all
    window_from: int = 0  # first layer with a window
    experts: int = 0
    chosen: int = 0  # experts per token
    embed: int = 0  # width of the embedding where it is not the stack's
    embed_scale: float = 1.0
    embed_norm: bool = False
    types: int = 0  # kinds of token
    shared: bool = False  # all layers have the same weights
    final_norm: bool = True
    tied: bool = True
    head_scale: float = 1.0  # of the states before the head
    head: str = "lm"  # masked: with a dense layer before; classes; "": hidden states
    head_bias: bool = False
    classes: int = 2
    pooler: str = "tanh"  # activation of the dense layer before classes
    patch: int = 0  # images instead of tokens
    image: int = 0
    channels: int = 3
    patch_bias: bool = True
    dealt: bool = False  # between blocks each core has some of the tokens; see decoder.prefill
    share: str = ""  # queries or keys: what two cores that have a head between them divide; see block.by_queries

    def __post_init__(self):
        for name, value in (("kv_heads", self.heads), ("head_dim", self.width // self.heads), ("embed", self.width)):
            if not getattr(self, name):
                object.__setattr__(self, name, value)

    @property
    def groups(self):
        """Of heads that share a key; 0: every head has its own."""
        return self.kv_heads if self.kv_heads < self.heads else 0

    @property
    def patches(self):
        return (self.image // self.patch) ** 2


@dataclass(frozen=True)
class TwoStacks:
    """T5: an encoder and a decoder that looks at it."""

    encoder: Transformer
    decoder: Transformer
    start: int = 0  # the token a decoder begins with


@dataclass(frozen=True)
class Clip:
    text: Transformer
    vision: Transformer
    width: int = 512  # of the space both are projected to
    end: int = 2  # the token whose state stands for the text; 2: the largest one


@dataclass(frozen=True)
class ResNet:
    channels: int
    stem: int
    widths: tuple
    depths: tuple
    bottleneck: bool
    activation: str
    shrink_first: bool  # whether the first stage halves the image
    shrink_early: bool  # in a bottleneck: by its first convolution, not its second
    classes: int
    eps: float = 1e-5


@dataclass(frozen=True)
class UNet:
    """Diffusion: residual blocks and cross-attention at each level, as in Stable Diffusion 1, 2 and XL."""

    channels: int
    outputs: int
    widths: tuple
    down: tuple  # per level: whether it attends
    up: tuple
    depth: int  # residual blocks per level
    heads: tuple  # per level
    attentions: tuple  # per level: transformer blocks in an attention
    text: int  # width of the states attended to
    linear: bool  # projections around an attention are dense layers, not 1x1 convolutions
    middle: bool = True
    groups: int = 32
    eps: float = 1e-5
    size: int = 64
    activation: str = "silu"
    added: int = 0  # width of what XL adds to the time: pooled text and six numbers
    added_time: int = 256
    flip: bool = True
    shift: int = 0
