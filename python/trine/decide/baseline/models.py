"""The models of a baseline in plain PyTorch, with weights and inputs that any machine makes alike."""

import math

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:  # a model of your own may be JAX's

    class nn:  # noqa: N801
        Module = object

    torch, F = None, None


def hashed(count, seed, device):
    """`count` numbers in [0, 2^31): products stay below 2^63, so every device and NumPy give the same."""
    x = torch.arange(count, dtype=torch.int64, device=device)
    x = (x * 1103515245 + seed * 12345 + 1) & 0x7FFFFFFF
    for factor, shift in ((0x2C1B3C6D, 15), (0x297A2D39, 12)):
        x ^= x >> shift
        x *= factor
        x &= 0x7FFFFFFF
    return x ^ (x >> 15)


def uniform(shape, seed, deviation, device):
    """Uniform numbers of that standard deviation around zero, exact in f32 before they are scaled."""
    x = (hashed(math.prod(shape), seed, device) >> 7).to(torch.float32) / (1 << 24) - 0.5
    return (x * (deviation * math.sqrt(12))).reshape(shape)


def integers(shape, seed, limit, device):
    return (hashed(math.prod(shape), seed, device) % limit).reshape(shape)


def fill(model):
    """Weights by their names' order: matrices 1/sqrt(fan-in), embeddings 0.02, norms one, biases zero."""
    with torch.no_grad():
        for seed, (name, weight) in enumerate(model.named_parameters(), 1):
            if weight.dim() == 1:
                weight.fill_(0.0 if name.endswith("bias") else 1.0)
                continue
            fan_in = weight[0].numel()
            embedding = "embed" in name or "token" in name
            weight.copy_(uniform(tuple(weight.shape), seed, 0.02 if embedding else 1 / math.sqrt(fan_in), weight.device))


def heads_of(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (heads_of(t, self.heads) for t in self.qkv(x).chunk(3, dim=-1))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v)))


class Encoder(nn.Module):
    """A layer of BERT (norm after) or of ViT (norm before)."""

    def __init__(self, width, heads, ffn, norm_first, eps):
        super().__init__()
        self.attention, self.norm_first = SelfAttention(width, heads), norm_first
        self.up, self.down = nn.Linear(width, ffn), nn.Linear(ffn, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, width, layers, heads, ffn, vocab, positions, **_):
        super().__init__()
        self.tokens, self.embed_position = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.embed_segment, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(Encoder(width, heads, ffn, False, 1e-12) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.embed_position.weight[: tokens.shape[1]] + self.embed_segment.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Vit(nn.Module):
    def __init__(self, width, layers, heads, ffn, image, patch, classes, **_):
        super().__init__()
        count = (image // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.empty(1, 1, width))
        self.embed_position = nn.Parameter(torch.empty(1, count + 1, width))
        self.layers = nn.ModuleList(Encoder(width, heads, ffn, True, 1e-6) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.embed_position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Block(nn.Module):
    """A decoder layer: Llama's (RMS norm, rotation, gated) or GPT-2's (layer norm, bias, GELU)."""

    def __init__(self, kind, width, heads, kv, ffn):
        super().__init__()
        self.llama, self.heads, self.kv, self.head = kind == "llama", heads, kv, width // heads
        bias = not self.llama
        self.qkv, self.out = nn.Linear(width, (heads + 2 * kv) * self.head, bias), nn.Linear(width, width, bias)
        self.up, self.down = nn.Linear(width, ffn * (2 if self.llama else 1), bias), nn.Linear(ffn, width, bias)
        norm = RmsNorm if self.llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(width), norm(width)

    def rotate(self, x, angles):
        cos, sin = angles
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def attend(self, x, angles, cache, position):
        q, k, v = self.qkv(x).split([self.heads * self.head, self.kv * self.head, self.kv * self.head], dim=-1)
        q, k, v = heads_of(q, self.heads), heads_of(k, self.kv), heads_of(v, self.kv)
        if self.llama:
            q, k = self.rotate(q, angles), self.rotate(k, angles)
        if cache is not None:
            cache[0].index_copy_(2, position, k)
            cache[1].index_copy_(2, position, v)
        if x.shape[1] == 1 and cache is not None:  # one new token: a group of heads reads its cache as rows of one query
            group = q.reshape(q.shape[0], self.kv, -1, self.head)
            y = F.scaled_dot_product_attention(group, cache[0], cache[1])
            return self.out(y.reshape(x.shape[0], 1, -1))
        each = self.heads // self.kv
        k, v = (t.repeat_interleave(each, dim=1) if each > 1 else t for t in (k, v))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x, angles, cache, position):
        x = x + self.attend(self.norm1(x), angles, cache, position)
        y = self.up(self.norm2(x))
        if self.llama:
            gate, up = y.chunk(2, dim=-1)
            return x + self.down(F.silu(gate) * up)
        return x + self.down(F.gelu(y, approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, kind, width, layers, heads, kv, ffn, vocab, positions=0, tied=True, **_):
        super().__init__()
        self.kind, self.tokens = kind, nn.Embedding(vocab, width)
        self.embed_position = nn.Embedding(positions, width) if positions else None
        self.layers = nn.ModuleList(Block(kind, width, heads, kv, ffn) for _ in range(layers))
        self.norm = RmsNorm(width) if kind == "llama" else nn.LayerNorm(width)
        self.head = None if tied else nn.Linear(width, vocab, bias=False)
        self.head_width, self.kv, self.cached = width // heads, kv, False

    def make_cache(self, batch, length, device, dtype):
        self.cached = True
        for i in range(2 * len(self.layers)):
            shape = (batch, self.kv, length, self.head_width)
            self.register_buffer(f"cache{i}", uniform(shape, 5000 + i, 1.0, device).to(dtype))

    def angles(self, position, dtype):
        half = self.head_width // 2
        step = 500000.0 ** (-torch.arange(half, device=position.device, dtype=torch.float32) / half)
        angle = position.float()[:, None] * step
        return angle.cos().to(dtype), angle.sin().to(dtype)

    def hidden(self, tokens, position):
        x = self.tokens(tokens)
        if self.embed_position is not None:
            x = x + self.embed_position(position)
        angles = self.angles(position, x.dtype) if self.kind == "llama" else None
        for i, layer in enumerate(self.layers):
            cache = (getattr(self, f"cache{2 * i}"), getattr(self, f"cache{2 * i + 1}")) if self.cached else None
            x = layer(x, angles, cache, position)
        return self.norm(x)

    def logits(self, x):
        return F.linear(x, self.tokens.weight if self.head is None else self.head.weight)

    def forward(self, tokens, position):
        return self.logits(self.hidden(tokens, position)[:, -1])

    def loss(self, tokens, position):
        logits = self.logits(self.hidden(tokens, position)[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.a, self.b = convolution(inputs, width, 1), convolution(width, width, 3, stride)
        self.c = convolution(width, 4 * width, 1)
        self.skip = convolution(inputs, 4 * width, 1, stride) if stride > 1 or inputs != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.skip(x))


class Resnet(nn.Module):
    def __init__(self, width, blocks, classes, **_):
        super().__init__()
        self.stem, inputs, stages = convolution(3, width, 7, 2), width, []
        for i, count in enumerate(blocks):
            for j in range(count):
                stages.append(Bottleneck(inputs, width << i, 2 if i and not j else 1))
                inputs = 4 * (width << i)
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(inputs, classes)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.stem(image)), 3, 2, 1)
        return self.head(self.stages(x).mean((2, 3)))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, time_width, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inputs, 1e-5), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time_width, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(groups, outputs, 1e-5), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time_vector):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time_vector))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.skip(x)


class Cross(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.heads, self.q = heads, nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(context, width, bias=False), nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x, context):
        q, k, v = (f.view(f.shape[0], f.shape[1], self.heads, -1).transpose(1, 2) for f in (self.q(x), self.k(context), self.v(context)))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.out(y.reshape(x.shape))


class Spatial(nn.Module):
    """Stable Diffusion's transformer over the pixels of a feature map."""

    def __init__(self, width, text, heads, groups):
        super().__init__()
        self.norm, self.enter, self.leave = nn.GroupNorm(groups, width, 1e-6), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.self_attention, self.cross = Cross(width, width, heads), Cross(width, text, heads)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x, text):
        batch, width, high, wide = x.shape
        y = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.self_attention(z, z)
        y = y + self.cross(self.norms[1](y), text)
        a, gate = self.up(self.norms[2](y)).chunk(2, dim=-1)
        y = y + self.down(a * F.gelu(gate))
        return x + self.leave(y.transpose(1, 2).reshape(batch, width, high, wide))


class Unet(nn.Module):
    """The denoiser of Stable Diffusion 1.x: four levels, two residual blocks each down, three up."""

    def __init__(self, channels, heads, text, groups, **_):
        super().__init__()
        first, time_width = channels[0], 4 * channels[0]
        self.first, self.enter = first, nn.Conv2d(4, first, 3, padding=1)
        self.time1, self.time2 = nn.Linear(first, time_width), nn.Linear(time_width, time_width)
        self.down, self.up, widths, at = nn.ModuleList(), nn.ModuleList(), [first], first

        def pair(inputs, outputs, attends):
            spatial = Spatial(outputs, text, heads, groups) if attends else nn.Identity()
            return nn.ModuleList([Residual(inputs, outputs, time_width, groups), spatial])

        for i, width in enumerate(channels):
            for _ in range(2):
                self.down.append(pair(at, width, i < 3))
                at = width
                widths.append(at)
            if i < 3:
                self.down.append(nn.Conv2d(at, at, 3, 2, 1))
                widths.append(at)
        self.middle = nn.ModuleList([pair(at, at, True), Residual(at, at, time_width, groups)])
        for i, width in reversed(list(enumerate(channels))):
            for _ in range(3):
                self.up.append(pair(at + widths.pop(), width, i < 3))
                at = width
            if i:
                self.up.append(nn.Conv2d(at, at, 3, padding=1))
        self.norm, self.leave = nn.GroupNorm(groups, first, 1e-5), nn.Conv2d(first, 4, 3, padding=1)

    def time_vector(self, step, dtype):
        half = self.first // 2
        angle = step.float()[:, None] * torch.exp(-math.log(10000) * torch.arange(half, device=step.device) / half)
        return self.time2(F.silu(self.time1(torch.cat([angle.cos(), angle.sin()], dim=-1).to(dtype))))

    def both(self, pair, x, when, text):
        x = pair[0](x, when)
        return x if isinstance(pair[1], nn.Identity) else pair[1](x, text)

    def forward(self, latent, step, text):
        when, x = self.time_vector(step, latent.dtype), self.enter(latent)
        skips = [x]
        for part in self.down:
            x = part(x) if isinstance(part, nn.Conv2d) else self.both(part, x, when, text)
            skips.append(x)
        x = self.middle[1](self.both(self.middle[0], x, when, text), when)
        for part in self.up:
            if isinstance(part, nn.Conv2d):
                x = part(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            else:
                x = self.both(part, torch.cat([x, skips.pop()], dim=1), when, text)
        return self.leave(F.silu(self.norm(x)))


CLASSES = {"bert": Bert, "vit": Vit, "gpt2": Decoder, "llama": Decoder, "resnet": Resnet, "unet": Unet}
