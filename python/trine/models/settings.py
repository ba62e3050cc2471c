"""What a model is, in one vocabulary for all families: sizes and choices, hashable, without weights and without JAX.

`families.py` reads them from a configuration; the model functions take them as a static argument.
"""

from dataclasses import dataclass, replace


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
    attention_long: float = 0.0  # likewise past the original context, where it is another
    whole: bool = False  # yarn: between which pairs it goes over is not rounded
    paired: bool = False  # files have the two dims of a pair side by side; loading sorts them
    sections: tuple = ()  # pairs that turn by time, row and column of a picture, where there are three positions


@dataclass(frozen=True)
class Latent:
    """Attention whose keys and values are made of one narrow vector per token, which is what the cache holds (MLA)."""

    rank: int  # of that vector
    rotated: int  # dims of a head that turn with the position; all heads share the key's
    still: int  # dims of a head that do not
    values: int  # dims of a head's value
    q_rank: int = 0  # queries, too, are made of a narrower vector; 0: of the state itself


@dataclass(frozen=True)
class StateSpace:
    """Mamba: a state that decays and is added to with every token. kind 1 has a decay per channel, kind 2 per head."""

    kind: int
    inner: int  # channels
    state: int  # numbers per channel
    kernel: int = 4  # tokens that the convolution before it sees
    heads: int = 0
    groups: int = 1  # of heads that share what goes in and out of the state
    rank: int = 0  # of the steps, kind 1
    chunk: int = 256
    bias: bool = False
    out_bias: bool = False
    conv_bias: bool = True
    normed: bool = True  # kind 2: norm of what comes out
    norm_groups: int = 1  # over so many parts of the channels each
    gate_last: bool = False  # after the norm instead of before it
    inner_norms: bool = False  # kind 1: norms of step, in and out
    least: float = 0.0  # of a step
    most: float = float("inf")
    scales: tuple = (1.0, 1.0, 1.0, 1.0, 1.0)  # of gate, channels, in, out, step as they are projected


@dataclass(frozen=True)
class Distances:
    """DeBERTa's relative positions: a vector per distance that is looked at apart from the tokens."""

    rows: int  # of the table
    kinds: tuple  # c2p: tokens look at distances; p2c: distances look at tokens
    shared: bool  # distances go through the tokens' own projections
    buckets: int = 0  # far distances share a row; 0: they do not
    furthest: int = 512
    normed: bool = False
    key_bias: bool = True


@dataclass(frozen=True)
class Router:
    """How a token chooses its experts."""

    kind: str = "softmax"  # sigmoid; mixer: one after the other, each weighed among its near rivals
    normed: bool = True  # weights of the chosen add up to one
    scale: float = 1.0
    bias: bool = False
    corrected: bool = False  # a number per expert is added for the choice alone
    groups: int = 0  # of experts, of which `best` groups may be chosen from
    best: int = 0
    of_group: int = 1  # experts whose scores, added up, are a group's
    jitter: float = 0.0  # mixer: how near


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
    norm: str = "layer"  # rms; rms1, layer1: times 1 + scale; centred: layer norm without a bias; plain: without weights
    eps: float = 1e-5
    positions: str = "rope"  # learned, waves (sines and cosines that are added), alibi, relative, none
    position_offset: int = 0
    alibi_scaled: bool = True  # as the scores are
    rope: Rope = Rope()
    buckets: int = 32  # relative positions: how many, and from which distance on there is one
    distance: int = 128
    activation: str = "gelu"
    gated: bool = False
    qkv_bias: bool = True
    o_bias: bool = True
    mlp_bias: bool = True
    block: str = "pre"  # post: norm of the sum; parallel: attention beside the MLP; normed: norm of what is added;
    # sandwich: norm of what goes in and of what is added; bare: a mixer alone, without an MLP
    norms: int = 2  # per block; 1 in a parallel one: shared
    first_norm: bool = True  # before attention
    mixer: str = "attention"  # latent, convolution, state, recurrence, both: attention beside a state, distances
    latent: Latent | None = None
    space: StateSpace | None = None
    distances: Distances | None = None
    kernel: int = 0  # convolution: tokens it sees
    recurrent: int = 0  # channels of a recurrence
    qk_norm: str = ""  # head: over each head; whole: over all of them; after: over each head once turned; own: a head has its own
    k_bias: bool | None = None  # None: as qkv_bias
    score_scale: float = 0.0  # 0: head_dim ** -0.5
    score_cap: float = 0.0  # scores between plus and minus this
    logit_cap: float = 0.0
    clip: float = 0.0  # of what q, k and v may be
    sinks: bool = False  # a learned score per head that no key has
    attention_scales: tuple = (1.0, 1.0, 1.0)  # of what goes into attention, of what comes out, of what a state gives
    mlp_scales: tuple = (1.0, 1.0)  # of the gate before its activation, of what comes out
    residual: float = 1.0  # factor of what a block adds
    layer_scale: bool = False  # a learned factor per channel of what a block adds
    window: int = 0  # keys each query sees; 0: all
    window_from: int = 0  # first layer with a window
    experts: int = 0
    chosen: int = 0  # experts per token
    router: Router = Router()
    shared_ffn: int = 0  # of an expert that every token goes to
    shared_gate: bool = False  # which a gate weighs
    gate_limit: float = 0.0  # gate and up are cut there, and one is added to up
    gate_slope: float = 1.0
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
    masked_bias: bool = True  # of the dense layer before masked tokens' logits
    masked_activation: str = ""  # after it, where it is another than the blocks'
    patch: int = 0  # images instead of tokens
    image: int = 0
    channels: int = 3
    patch_bias: bool = True
    first_token: bool = True  # a learned one before the patches
    pooled: str = ""  # what classes are told from: "" the first token; both: beside it the mean of the others
    dealt: bool = False  # between blocks each core has some of the tokens; see decoder.prefill
    share: str = ""  # queries or keys: what two cores that have a head between them divide; see block.by_queries
    forms: tuple = ()  # of each layer what differs from the above, as ((name, value), ...); empty: all are alike

    def layer(self, i):
        """The settings of one layer."""
        return replace(self, forms=(), **dict(self.forms[i])) if self.forms else self

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
    """An encoder and a decoder that looks at it: T5, BART, Whisper."""

    encoder: Transformer
    decoder: Transformer
    start: int = 0  # the token a decoder begins with
    bands: int = 0  # of the sound that is read in place of tokens
    logit_bias: bool = False


@dataclass(frozen=True)
class Speech:
    """wav2vec 2.0 and HuBERT: convolutions over a wave, then an encoder."""

    stack: Transformer
    widths: tuple  # of the convolutions
    kernels: tuple
    strides: tuple
    stem_norm: str  # group: of the first, per channel; layer: of each
    stem_bias: bool
    stem_activation: str
    wide: int  # kernel of the convolution that stands for positions
    groups: int
    letters: int = 0  # 0: states


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
class ConvNext:
    name: str
    version: int
    channels: int
    patch: int
    widths: tuple
    depths: tuple
    activation: str
    eps: float
    image: int
    classes: int
    scaled: bool = True


@dataclass(frozen=True)
class Block:
    """Of an EfficientNet."""

    inputs: int
    outputs: int
    expand: int
    kernel: int
    stride: int
    adds: bool  # to what goes in
    after: bool  # padding of a stride of two: more after than before


@dataclass(frozen=True)
class EfficientNet:
    channels: int
    stem: int
    blocks: tuple
    squeeze: float
    top: int
    activation: str
    eps: float
    image: int
    classes: int


@dataclass(frozen=True)
class Vgg:
    channels: int
    widths: tuple  # of the convolutions; M: pooling
    normed: bool
    hidden: int
    classes: int


@dataclass(frozen=True)
class Swin:
    channels: int
    image: int
    patch: int
    width: int
    depths: tuple
    heads: tuple
    window: int
    ratio: float
    qkv_bias: bool
    activation: str
    eps: float
    classes: int


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


@dataclass(frozen=True)
class Dit:
    """A diffusion transformer: DiT, and with a text Stable Diffusion 3 and Flux."""

    width: int
    layers: int
    heads: int
    head_dim: int
    channels: int
    outputs: int
    size: int  # of the latent image
    patch: int = 1
    eps: float = 1e-5
    bias: bool = True
    classes: int = 0
    text: int = 0  # width of the text's states
    pooled: int = 0  # width of what stands for all of it
    table: int = 0  # patches per side that there are positions for
    dual: tuple = ()  # layers in which the image attends to itself a second time
    qk_norm: bool = False
    singles: int = 0  # layers that hold image and text as one
    guided: bool = False
    axes: tuple = ()  # dims of a head that turn by each of three positions


@dataclass(frozen=True)
class Vae:
    channels: int
    latent: int
    widths: tuple
    depth: int
    groups: int
    size: int
    attends: bool = True
    quant: bool = True


@dataclass(frozen=True)
class Perceiver:
    vocab: int
    context: int
    width: int  # of the tokens
    latents: int
    latent_width: int
    blocks: int  # how often all layers are gone through
    layers: int
    heads: int
    cross_heads: int
    keys: int  # channels of queries and keys among latents, and of values
    values: int
    cross_keys: int
    cross_values: int
    wider: int
    cross_wider: int
    adds: bool  # what latents see to themselves
    activation: str
    out_keys: int = 256
    out_heads: int = 8
    sees: str = ""  # images instead of tokens: conv, after a convolution; pixels; learned, with learned positions
    image: int = 0
    classes: int = 0


@dataclass(frozen=True)
class Seeing:
    """A decoder, the tower that sees for it, and the two dense layers between them."""

    text: Transformer
    vision: Transformer
    token: int  # that stands for a part of an image
    layer: int = -2  # whose states are taken; from the end where below zero; 0: all layers' and their norm's
    without_first: bool = True
    joint_activation: str = "gelu"
    joint_bias: bool = True
    merge: int = 1  # patches per side that become one token
    frames: int = 1  # of a moving image that a patch is over
    window: int = 0  # tokens per side of a window; 0: every patch sees all
    whole: tuple = ()  # layers that see all
    pooled: int = 0  # tokens per side that patches are averaged to
    together: bool = False  # an image's tokens see one another, not only those before
