"""A matrix multiply, out = lhsT.T @ rhs, as NeuronCore programs in four stages of care.

  tiled      every tile is loaded where it is used
  hoisted    a row of lhsT tiles stays in SBUF while rhs streams through
  blocked    the same over 2x2 blocks of output tiles; rhs does not fit, so it streams again for each
  blocked_k  blocks of K as well: large loads, partial sums kept in SBUF

Each function returns assembly text for `trine asm` and `trine run`:

  python examples/matmul.py blocked_k --size 4096x8192x8192 --dtype f32 > matmul.tasm
  trine run matmul.tasm --instance trn2.3xlarge --time
"""

import argparse

P, TM, TN = 128, 128, 512  # partitions (K of one tile), stationary columns, moving columns


class Text:
    """Lines of assembly, indented by loop depth."""

    def __init__(self):
        self.lines, self.depth = [], 0

    def add(self, line):
        self.lines.append("  " * self.depth + line)

    def stream(self, name):
        self.depth = 0
        self.add(f"stream {name}")
        self.depth = 1

    def loop(self, count):
        self.add(f"loop {count}")
        self.depth += 1

    def end(self, count=1):
        for _ in range(count):
            self.depth -= 1
            self.add("end_loop")

    def text(self):
        return "\n".join(self.lines) + "\n"


def affine(*terms):
    """Joins (scale, index) terms and constants into `a+b*i0`, dropping zeros."""
    constant = sum(t for t in terms if isinstance(t, int))
    parts = [f"{scale}*{index}" for scale, index in (t for t in terms if not isinstance(t, int)) if scale]
    if constant or not parts:
        parts.insert(0, str(constant))
    return "+".join(parts).replace("+-", "-")


def head(t, name, m, n, k, dtype):
    t.add(f"program {name}")
    t.add(f"tensor lhsT hbm {dtype}[{k},{m}] input")
    t.add(f"tensor rhs hbm {dtype}[{k},{n}] input")
    t.add(f"tensor out hbm f32[{m},{n}] output")


class Places:
    """Hands out SBUF bytes, one tensor after the other."""

    def __init__(self, t, dtype):
        self.t, self.dtype, self.next = t, dtype, 0

    def sbuf(self, name, columns, dtype=None):
        dtype = dtype or self.dtype
        self.t.add(f"tensor {name} sbuf {dtype}[{P},{columns}] at 0:{self.next}")
        self.next += columns * {"f32": 4, "bf16": 2, "f16": 2, "f8e4m3": 1}[dtype]


def load(t, dst, src, offset, row, columns, queue, wait, then, dge):
    wait = f" wait {wait}" if wait else ""
    t.add(f"dma_copy dst={dst} src={src}[{offset}, {P}@{row} {columns}@1] queue={queue} dge={dge}{wait} then {then}+=16")


def drain(t, tiles_m, tiles_n, n, per_tile):
    """PSUM to SBUF on Vector and to HBM from Scalar; two banks and two buffers in turn."""
    t.stream("vector")
    t.loop(tiles_m)
    t.loop(tiles_n // 2)
    for j in range(2):
        done = affine(per_tile * (j + 1), (per_tile * tiles_n, "i0"), (2 * per_tile, "i1"))
        stored = affine(16 * (j - 1), (16 * tiles_n, "i0"), (32, "i1"))
        t.add(f"tensor_copy dst=res{j} src=acc{j} wait s2>={done} s4>={stored} then s3+=1")
    t.end(2)
    t.stream("scalar")
    t.loop(tiles_m)
    t.loop(tiles_n // 2)
    for j in range(2):
        ready = affine(j + 1, (tiles_n, "i0"), (2, "i1"))
        offset = affine(TN * j, (TM * n, "i0"), (2 * TN, "i1"))
        t.add(f"dma_copy dst=out[{offset}, {TM}@{n} {TN}@1] src=res{j} queue=2 wait s3>={ready} then s4+=16")
    t.end(2)


def tiled(m, n, k, dtype="f32", dge="unknown", buffers=8, issuer="sync"):
    """Both tiles of every multiply are loaded for it alone, `buffers` of each in turn."""
    t = Text()
    tiles_m, tiles_n, tiles_k = m // TM, n // TN, k // P
    buffers = min(buffers, tiles_k)
    head(t, "matmul_tiled", m, n, k, dtype)
    places = Places(t, dtype)
    for j in range(buffers):
        places.sbuf(f"a{j}", TM)
        places.sbuf(f"b{j}", TN)
    for j in range(2):
        places.sbuf(f"res{j}", TN, "f32")
        t.add(f"tensor acc{j} psum f32[{TM},{TN}] at 0:{2048 * j}")
    t.stream(issuer)
    t.loop(tiles_m)
    t.loop(tiles_n)
    t.loop(tiles_k // buffers)
    for j in range(buffers):
        # the multiply that used this buffer last must be over
        free = "s2>=" + affine(j + 1 - buffers, (tiles_n * tiles_k, "i0"), (tiles_k, "i1"), (buffers, "i2"))
        load(t, f"a{j}", "lhsT", affine(P * m * j, (TM, "i0"), (P * m * buffers, "i2")), m, TM, 0, free, "s0", dge)
        load(t, f"b{j}", "rhs", affine(P * n * j, (TN, "i1"), (P * n * buffers, "i2")), n, TN, 1, free, "s1", dge)
    t.end(3)
    t.stream("tensor")
    t.loop(tiles_m)
    t.loop(tiles_n // 2)
    for bank in range(2):
        t.loop(tiles_k // buffers)
        for j in range(buffers):
            done = affine(16 * (j + 1) + 16 * tiles_k * bank, (16 * tiles_n * tiles_k, "i0"), (32 * tiles_k, "i1"), (16 * buffers, "i2"))
            drained = affine(bank - 1, (tiles_n, "i0"), (2, "i1"))
            t.add(f"nc_matmul dst=acc{bank} stationary=a{j} moving=b{j} accumulate=first wait s0>={done} s1>={done} s3>={drained} then s2+=1")
        t.end()
    t.end(2)
    drain(t, tiles_m, tiles_n, n, tiles_k)
    return t.text()


def hoisted(m, n, k, dtype="f32", dge="unknown", buffers=16, group=1, block=1):
    """lhsT tiles of `block` rows of output tiles stay (two such sets in turn); rhs tiles stream through `buffers`
    places, which are given back `group` at a time."""
    t = Text()
    tiles_m, tiles_n, tiles_k = m // TM, n // TN, k // P
    buffers = min(buffers, tiles_k)
    head(t, "matmul_hoisted" if block == 1 else "matmul_blocked", m, n, k, dtype)
    places = Places(t, dtype)
    rows = tiles_m // block
    for half in range(2):
        for b in range(block):
            places.sbuf(f"a{half}_{b}", TM * tiles_k)
    for j in range(buffers):
        places.sbuf(f"b{j}", TN)
    for j in range(2):
        places.sbuf(f"res{j}", TN, "f32")
        t.add(f"tensor acc{j} psum f32[{TM},{TN}] at 0:{2048 * j}")
    per_row = tiles_n * tiles_k
    # lhsT: row r+1 is loaded while row r is used
    t.stream("gpsimd")
    t.loop(rows // 2)
    for half in range(2):
        for b in range(block):
            t.loop(tiles_k)
            free = "s2>=" + affine((half - 1) * block * per_row, (2 * block * per_row, "i0"))
            load(t, f"a{half}_{b}[0:{P}, {TM}*i1, {TM}@1]", "lhsT",
                 affine(TM * (half * block + b), (2 * block * TM, "i0"), (P * m, "i1")), m, TM, 0, free, "s0", dge)
            t.end()
    t.end()
    t.stream("sync")
    t.loop(tiles_m)
    t.loop(tiles_n)
    t.loop(tiles_k // buffers)
    for j in range(buffers):
        free = "s2>=" + affine((j // group + 1) * group - buffers, (per_row, "i0"), (tiles_k, "i1"), (buffers, "i2"))
        load(t, f"b{j}", "rhs", affine(P * n * j, (TN, "i1"), (P * n * buffers, "i2")), n, TN, 1 + 2 * (j % 2), free, f"s{1 + 4 * (j % 2)}", dge)
    t.end(3)
    t.stream("tensor")
    t.loop(rows // 2)
    for half in range(2):
        for b in range(block):
            row = half * block + b
            t.loop(tiles_n // 2)
            for bank in range(2):
                t.loop(tiles_k // buffers)
                for j in range(buffers):
                    loaded = affine(16 * tiles_k * (row + 1), (32 * block * tiles_k, "i0"))
                    # even and odd tiles come by two queues, each with its own semaphore
                    streamed = affine(16 * (j // 2 + 1) + 8 * tiles_k * bank + 8 * per_row * row, (16 * block * per_row, "i0"), (16 * tiles_k, "i1"), (8 * buffers, "i2"))
                    drained = affine(bank - 1 + tiles_n * row, (2 * block * tiles_n, "i0"), (2, "i1"))
                    stationary = f"a{half}_{b}[0:{P}, {affine(TM * j, (TM * buffers, 'i2'))}, {TM}@1]"
                    t.add(f"nc_matmul dst=acc{bank} stationary={stationary} moving=b{j} accumulate=first wait s0>={loaded} s{1 + 4 * (j % 2)}>={streamed} s3>={drained} then s2+=1")
                t.end()
            t.end()
    t.end()
    drain(t, tiles_m, tiles_n, n, tiles_k)
    return t.text()


class Blocks:
    """The counts of blocked_k: a block is 4 x block_n output tiles, one PSUM bank each."""

    def __init__(self, m, n, k, block_n, block_k):
        self.m, self.n, self.block_n, self.block_k = m, n, block_n, min(block_k, k // (2 * P))
        self.wide_m, self.wide_n = TM * 4, TN * block_n
        self.count_m, self.count_n, self.count_k = m // self.wide_m, n // self.wide_n, k // (P * self.block_k)
        self.banks = 4 * block_n
        self.per_block = self.banks * self.block_k  # multiplies of one (n, k, m) block
        self.per_k = self.per_block * self.count_m
        self.per_n = self.per_k * self.count_k
        self.tiles = self.count_m * self.banks  # output tiles of a block column
        self.places_a = 2


def blocked_k(m, n, k, dtype="f32", dge="unknown", block_n=2, block_k=8):
    """Blocks in all three dimensions; partial sums of a block column are added up in SBUF by Vector.

    A block's K tiles are the outer loop, so that every lhsT tile is free again after 8 multiplies: two places suffice
    for lhsT, and rhs has two halves of block_k tiles.
    """
    t, x = Text(), Blocks(m, n, k, block_n, block_k)
    head(t, "matmul_blocked_k", m, n, k, dtype)
    places = Places(t, dtype)
    for half in range(2):
        for b in range(x.block_k):
            places.sbuf(f"b{half}_{b}", x.wide_n)
    for j in range(x.places_a):
        places.sbuf(f"a{j}", x.wide_m)
    places.sbuf("sums", TN * x.tiles, "f32")
    for j in range(2):
        places.sbuf(f"packed{j}", x.wide_n, "f32")
    for j in range(x.banks):
        t.add(f"tensor acc{j} psum f32[{TM},{TN}] at 0:{2048 * j}")
    blocked_k_load(t, x, dge)
    blocked_k_multiply(t, x)
    blocked_k_add(t, x)
    blocked_k_store(t, x)
    return t.text()


def blocked_k_load(t, x, dge):
    t.stream("scalar")  # rhs, half a column ahead
    t.loop(x.count_n)
    t.loop(x.count_k // 2)
    for half in range(2):
        free = "s2>=" + affine((half - 1) * x.per_k, (x.per_n, "i0"), (2 * x.per_k, "i1"))
        for b in range(x.block_k):
            rows = P * x.n * x.block_k
            offset = affine(rows * half + P * x.n * b, (x.wide_n, "i0"), (2 * rows, "i1"))
            load(t, f"b{half}_{b}", "rhs", offset, x.n, x.wide_n, 1, free, "s1", dge)
    t.end(2)

    t.stream("sync")  # lhsT, two tiles ahead
    t.loop(x.count_n)
    t.loop(x.count_k)
    t.loop(x.count_m)
    for b in range(x.block_k):
        free = "s2>=" + affine(x.banks * (b + 1 - x.places_a), (x.per_n, "i0"), (x.per_k, "i1"), (x.per_block, "i2"))
        offset = affine(P * x.m * b, (P * x.m * x.block_k, "i1"), (x.wide_m, "i2"))
        load(t, f"a{b % x.places_a}", "lhsT", offset, x.m, x.wide_m, 0, free, "s0", dge)
    t.end(3)


def blocked_k_multiply(t, x):
    t.stream("tensor")
    t.loop(x.count_n)
    t.loop(x.count_k // 2)
    column = 16 * x.block_k  # semaphore counts of the loads of one block of K
    for half in range(2):
        t.loop(x.count_m)
        for b in range(x.block_k):
            rhs_in = affine(column * half + 16 * (b + 1), (column * x.count_k, "i0"), (2 * column, "i1"))
            lhs_in = affine(16 * (b + 1) + column * x.count_m * half, (column * x.count_m * x.count_k, "i0"),
                            (2 * column * x.count_m, "i1"), (column, "i2"))
            for bank in range(x.banks):
                bm, bn = bank // x.block_n, bank % x.block_n
                drained = affine(bank + 1 - x.banks + half * x.tiles, (x.tiles * x.count_k, "i0"), (2 * x.tiles, "i1"),
                                 (x.banks, "i2"))
                waits = f"s0>={lhs_in} s1>={rhs_in}" + (f" s3>={drained}" if b == 0 else "")
                how = "overwrite" if b == 0 else "add"
                t.add(f"nc_matmul dst=acc{bank} stationary=a{b % x.places_a}[0:{P}, {TM * bm}, {TM}@1] "
                      f"moving=b{half}_{b}[0:{P}, {TN * bn}, {TN}@1] accumulate={how} wait {waits} then s2+=1")
        t.end()
    t.end(2)


def blocked_k_add(t, x):
    t.stream("vector")
    t.loop(x.count_n)
    t.loop(x.count_m)
    t.add(f"memset dst=sums[0:{P}, {TN * x.banks}*i1, {TN * x.banks}@1] value=0")
    t.end()
    t.loop(x.count_k)
    t.loop(x.count_m)
    for bank in range(x.banks):
        done = affine(x.per_block - x.banks + bank + 1, (x.per_n, "i0"), (x.per_k, "i1"), (x.per_block, "i2"))
        tile = f"sums[0:{TM}, {affine(TN * bank, (TN * x.banks, 'i2'))}, {TN}@1]"
        t.add(f"tensor_tensor dst={tile} data1={tile} data2=acc{bank} op=add wait s2>={done} then s3+=1")
    t.end(2)
    t.loop(x.tiles // x.block_n // 2)
    for j in range(2):
        stored = affine((8 * x.tiles // x.block_n, "i0"), (16, "i1"))
        place = affine(x.wide_n * j, (2 * x.wide_n, "i1"))
        t.add(f"tensor_copy dst=packed{j} src=sums[0:{TM}, {place}, {x.wide_n}@1] wait s{4 + 2 * j}>={stored} then s5+=1")
    t.end(2)


def blocked_k_store(t, x):
    t.stream("gpsimd")
    t.loop(x.count_n)
    t.loop(x.tiles // x.block_n // 2)
    for j in range(2):
        ready = affine(j + 1, (x.tiles // x.block_n, "i0"), (2, "i1"))
        offset = affine(TM * x.n * j, (x.wide_n, "i0"), (2 * TM * x.n, "i1"))
        t.add(f"dma_copy dst=out[{offset}, {TM}@{x.n} {x.wide_n}@1] src=packed{j} queue={2 + 2 * j} "
              f"wait s5>={ready} then s{4 + 2 * j}+=16")
    t.end(2)


def blocked(m, n, k, **options):
    """Two rows of lhsT at a time and rhs in groups of tiles. A whole 2x2 block's rhs exceeds SBUF at K = 8192, so
    rhs streams once per row of output tiles, as in `hoisted`."""
    return hoisted(m, n, k, block=2, buffers=32, group=16, **options)


VARIANTS = {"tiled": tiled, "hoisted": hoisted, "blocked": blocked, "blocked_k": blocked_k}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--size", default="4096x8192x8192", help="MxNxK; M and N multiples of 256 and 1024, K of 1024")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    args = parser.parse_args()
    m, n, k = (int(x) for x in args.size.split("x"))
    print(VARIANTS[args.variant](m, n, k, dtype=args.dtype), end="")


if __name__ == "__main__":
    main()
