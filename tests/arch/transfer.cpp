// describe_transfer against the published examples, and against a walk over every element's address.
#include "arch/transfer.h"

#include <random>

#include "arch/chips/chip.h"
#include "arch/row.h"
#include "tests/testing.h"

namespace trine::arch {
namespace {

// A program of one instruction, its tensors as large as the test needs.
struct OneCall {
  Program program;
  Insn insn;

  explicit OneCall(std::string_view row) { insn.opcode = row_by_name(row)->row->opcode; }

  void operand(Space space, Dtype dtype, int partitions, int64_t row_stride, std::vector<Dim> dims) {
    Tensor t;
    t.space = space;
    t.dtype = dtype;
    Pattern p;
    p.dtype = dtype;
    p.partitions = static_cast<uint16_t>(partitions);
    p.partition_stride = row_stride;
    p.rank = static_cast<uint8_t>(dims.size());
    std::copy(dims.begin(), dims.end(), p.dims.begin());
    Operand o;
    o.kind = OperandKind::tile;
    o.tensor = static_cast<uint32_t>(program.tensors.size());
    o.pattern = static_cast<uint32_t>(program.patterns.size());
    program.tensors.push_back(t);
    program.patterns.push_back(p);
    program.operands.push_back(o);
  }

  Call call(const Chip& chip) const {
    return {program, chip, insn, *row_by_opcode(insn.opcode), Engine::sync, 0, nullptr, nullptr};
  }
};

const Chip& trn2() { return **find_chip("trn2"); }

TEST_CASE("transfer: four long rows use one engine") {
  OneCall c("dma_copy");
  c.operand(Space::sbuf, Dtype::bf16, 4, 0, {{1, 4096}});
  c.operand(Space::hbm, Dtype::bf16, 4, 4096, {{1, 4096}});
  const Transfer t = describe_transfer(trn2(), c.call(trn2()));
  REQUIRE(t.shares.size() == 1);
  CHECK(t.bytes == 32768);
  CHECK(t.shares[0].descriptors == 4);
  CHECK(t.shares[0].strided_descriptors == 0);
  CHECK(t.hbm_read == 32768);
  CHECK(t.sbuf_write == 32768);
  CHECK(t.rate_fraction == 1);
}

TEST_CASE("transfer: 128 rows use sixteen engines, and rows apart are strided") {
  OneCall c("dma_copy");
  c.operand(Space::sbuf, Dtype::f32, 128, 0, {{1, 512}});
  c.operand(Space::hbm, Dtype::f32, 128, 8192, {{1, 512}});
  const Transfer t = describe_transfer(trn2(), c.call(trn2()));
  REQUIRE(t.shares.size() == 16);
  for (const auto& s : t.shares) {
    CHECK(s.bytes == 8 * 2048);
    CHECK(s.descriptors == 8);
    CHECK(s.strided_descriptors == 7);
  }
}

TEST_CASE("transfer: rows of the second quarter use its engines") {
  OneCall c("dma_copy");
  c.operand(Space::sbuf, Dtype::f32, 32, 0, {{1, 512}});
  c.operand(Space::hbm, Dtype::f32, 32, 8192, {{1, 512}});
  c.program.operands[0].partition = 32;
  const Transfer t = describe_transfer(trn2(), c.call(trn2()));
  REQUIRE(t.shares.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(t.shares[i].engine == int(4 + i));
}

TEST_CASE("transfer: a long run between HBM tensors is cut for every engine") {
  OneCall c("dma_copy");
  c.operand(Space::hbm, Dtype::f32, 1, 0, {{1, 1 << 20}});
  c.operand(Space::hbm, Dtype::f32, 1, 0, {{1, 1 << 20}});
  const Transfer t = describe_transfer(trn2(), c.call(trn2()));
  REQUIRE(t.shares.size() == 16);
  CHECK(t.descriptors() == 64);  // 4 MiB in 64 KiB pieces
  CHECK(t.hbm_read == 4 << 20);
  CHECK(t.hbm_write == 4 << 20);
}

TEST_CASE("transfer: the wider side counts where the dtype changes") {
  OneCall c("dma_copy");
  c.operand(Space::sbuf, Dtype::bf16, 8, 0, {{1, 64}});
  c.operand(Space::hbm, Dtype::f32, 8, 64, {{1, 64}});
  const Transfer t = describe_transfer(trn2(), c.call(trn2()));
  CHECK(t.bytes == 8 * 64 * 4);
  CHECK(t.sbuf_write == 8 * 64 * 2);
}

// Byte address of every element, in pattern order; partitions lie far apart on chip.
std::vector<int64_t> addresses(const Tile& t) {
  std::vector<int64_t> out;
  for (int p = 0; p < t.partitions; ++p) {
    std::vector<int64_t> row{t.space == Space::hbm ? p * t.row_stride : int64_t{p} << 30};
    for (int d = 0; d < t.pattern->rank; ++d) {
      std::vector<int64_t> next;
      for (int64_t base : row)
        for (uint32_t n = 0; n < t.pattern->dims[static_cast<size_t>(d)].count; ++n)
          next.push_back(base + n * t.pattern->dims[static_cast<size_t>(d)].stride * t.element_bytes());
      row = next;
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

TEST_CASE("transfer: counts agree with a walk over the elements") {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    OneCall c("dma_copy");
    const int rows = 1 + pick(40);
    const uint32_t a = 1 + static_cast<uint32_t>(pick(6)), b = 1 + static_cast<uint32_t>(pick(6));
    for (Space space : {Space::sbuf, Space::hbm}) {
      const int64_t inner = 1 + pick(2), outer = b * inner + pick(2) * 3, row = a * outer + pick(2) * 7;
      c.operand(space, Dtype::f32, rows, row, {{outer, a}, {inner, b}});
    }
    const Call call = c.call(trn2());
    const auto to = addresses(call.tile("dst")), from = addresses(call.tile("src"));
    std::vector<Transfer::Share> expected(16);
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t engine = i / (a * b) / 8;
      const bool first = expected[engine].bytes == 0;
      const bool hbm_jumps = !first && from[i] != from[i - 1] + 4, chip_jumps = !first && to[i] != to[i - 1] + 4;
      expected[engine].bytes += 4;
      expected[engine].descriptors += first || hbm_jumps || chip_jumps;
      expected[engine].strided_descriptors += hbm_jumps;
    }
    const Transfer t = describe_transfer(trn2(), call);
    CHECK(t.shares.size() == static_cast<size_t>((rows + 7) / 8));
    for (const auto& s : t.shares) {
      const auto& e = expected[static_cast<size_t>(s.engine)];
      CAPTURE(round);
      CHECK(s.bytes == e.bytes);
      CHECK(s.descriptors == e.descriptors);
      CHECK(s.strided_descriptors == e.strided_descriptors);
    }
  }
}

}  // namespace
}  // namespace trine::arch
