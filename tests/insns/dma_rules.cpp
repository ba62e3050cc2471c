// What the DMA, register, semaphore and rendezvous rows refuse, and the transfers of the rows that are no plain copies.
#include "arch/transfer.h"
#include "tests/insns/one_insn.h"

using namespace trine;
using namespace trine::arch;

namespace {

constexpr std::string_view kTiles =
    "a hbm f32[128,512]; t sbuf f32[128,512]; h sbuf bf16[128,512]; b hbm bf16[128,512]; x sbuf u32[128,1];"
    "y sbuf f32[128,1]; z sbuf u32[64,1]; c hbm f8e5m2[128,512]; m sbuf f8e5m2_x4[128,128]; r sbuf s32[128,1];"
    "k sbuf bf16[128,128]; n hbm bf16[16,128]; l sbuf u32[40,2]";

struct ErrorRow {
  std::string_view chip, engine, insn, summary;
};

constexpr ErrorRow kErrors[] = {
    {"trn2", "sync", "dma_copy dst=t src=a queue=16", "queues 0 to 15"},
    {"trn2", "sync", "dma_copy dst=t src=a priority=1", "serves its queues in turn"},
    {"trn3", "sync", "dma_copy dst=t src=a priority=4", "0 (first) to 3"},
    {"trn1", "sync", "dma_copy dst=t src=a dge=hwdge", "not on trn1"},
    {"trn2", "vector", "dma_copy dst=t src=a dge=hwdge", "scalar or sync, not vector"},
    {"trn2", "sync", "dma_copy dst=t src=a dge=swdge", "issued from gpsimd, not sync"},
    {"trn2", "sync", "dma_copy dst=h src=a dge=hwdge", "never casts"},
    {"trn2", "sync", "dma_copy dst=t[0:128, 0, 511@1] src=a", "each needs its counterpart"},
    {"trn3", "sync", "dma_copy dst=m src=a[0, 128@512 128@1]", "never cast"},
    {"trn1", "gpsimd", "dma_transpose dst=k src=b[0, 128@512 128@1, rows x*512]", "not on trn1"},
    {"trn2", "sync", "dma_copy dst=t src=a[0, 128@512 512@1, rows x*512]", "issued from gpsimd"},
    {"trn2", "gpsimd", "dma_copy dst=t src=a[0, 128@512 512@1, rows x*512] dge=none", "need dge=swdge"},
    {"trn2", "gpsimd", "dma_copy dst=t src=a[0, 128@512 512@1, rows y*512]", "32-bit integers in sbuf"},
    {"trn2", "gpsimd", "dma_copy dst=t src=a[0, 128@512 512@1, rows z*512]", "64 entries for 128 rows"},
    {"trn2", "gpsimd", "dma_copy dst=t src=a[0, 64@1024 1024@1, rows x*512]", "cut alike"},
    {"trn2", "sync", "dma_transpose dst=k src=b[0, 128@512 128@1] axes=[0,1]", "none of [1, 0]"},
    {"trn2", "sync", "dma_transpose dst=k src=b[0, 64@512 128@1]", "last dimension as partitions"},
    {"trn2", "sync", "dma_transpose dst=t src=b[0, 512@1 128@512]", "of one dtype"},
    {"trn2", "sync", "dma_transpose dst=k src=b[0, 128@512 128@1] dge=hwdge", "first dimension of 16"},
    {"trn2", "gpsimd", "dma_transpose dst=k src=b[0, 128@512 128@1] dge=swdge", "dge=unknown or dge=hwdge"},
    {"trn2", "gpsimd", "dma_transpose dst=k[0:128, 0, 72@1] src=b[0, 72@512 128@1, rows x*512]", "multiples of 16"},
    {"trn2", "gpsimd", "dma_transpose dst=k[0:128, 0, 64@1] src=b[0, 64@512 128@1, rows l*512]",
     "a multiple of 16 partitions"},
    {"trn2", "sync", "dma_compute dst=t src0=a src1=t op=multiply", "add, max or min"},
    {"trn2", "sync", "dma_compute dst=t src0=a src1=t dge=hwdge", "prebuilt descriptors"},
    {"trn2", "gpsimd", "dma_compute dst=t src0=t src1=a[0, 128@512 512@1, rows x*512] scale0=2", "unscaled"},
    {"trn2", "gpsimd", "dma_compute dst=t src0=a[0, 128@512 512@1, rows x*512]", "found 1 sources"},
    {"trn2", "sync", "dma_trigger dst=h src=a", "copies bits"},
    {"trn2", "sync", "dma_trigger dst=t src=a[r1*512, 128@512 512@1]", "fixed addresses"},
    {"trn2", "sync", "register_load dst=r1 src=x", "128 elements"},
    {"trn2", "sync", "register_load dst=r1 src=y[0:1, 0, 1@1]", "registers are 32-bit integers"},
    {"trn2", "sync", "register_store dst=y[0:1, 0, 1@1] src=r1", "registers are 32-bit integers"},
    {"trn2", "sync", "register_alu dst=r1 a=r2 b=3 op=power", "no register form"},
    {"trn2", "sync", "semaphore_wait", "no wait clause"},
    {"trn2", "sync", "semaphore_set then s1+=1", "sets no semaphore"},
    {"trn2", "sync", "semaphore_increment wait s1>=1", "increments no semaphore"},
    {"trn2", "sync", "core_barrier", "runs on one core"},
    {"trn1", "sync", "core_barrier", "needs core_pair"},
    {"trn2", "sync", "sendrecv dst=t src=t send_to_rank=0 recv_from_rank=0", "runs on one core"},
    {"trn2", "sync", "collective dst=t src=a kind=all_reduce", "both lie in hbm"},
    {"trn2", "sync", "collective dst=b src=a kind=all_reduce", "keeps one dtype"},
    {"trn2", "sync", "collective_v dst=a src=a metadata=x[0:1, 0, 3@0] kind=all_reduce",
     "all_gather and kind=all_to_all"},
    {"trn2", "sync", "collective_v dst=b src=a metadata=x[0:1, 0, 3@0] kind=all_gather", "keeps one dtype"},
    {"trn2", "sync", "collective_v dst=a src=a[0, 64@1024 512@1] metadata=x[0:1, 0, 1@1] kind=all_gather",
     "without gaps"},
    {"trn2", "sync", "collective_v dst=a src=a metadata=x[0:1, 0, 1@1] kind=all_gather", "3 rows of 1 ranks"},
    {"trn2", "sync", "collective dst=a src=a kind=all_reduce op=multiply", "add, max or min"},
    {"trn2", "sync", "collective dst=a src=a kind=all_gather dim=1", "1 for an all_gather in sbuf"},
    {"trn2", "sync", "collective dst=a src=a[0, 64@512 512@1] kind=all_gather", "it needs 32768"},
    {"trn2", "sync", "collective dst=a src=a kind=broadcast root=1", "ranks are 0 to 0"},
    {"trn2", "sync", "collective dst=a src=a kind=permute", "source and target"},
    {"trn2", "sync", "collective dst=a src=a kind=permute pairs=[0,1]", "names rank 1"},
    {"trn2", "sync", "collective dst=a src=a kind=all_reduce groups=[0,0]", "each of 1 cores"},
};

struct TransferRow {
  std::string_view chip, insn;
  double fraction;
  int64_t bytes, descriptors;
};

constexpr TransferRow kTransfers[] = {
    {"trn2", "dma_transpose dst=k src=b[0, 128@512 128@1]", 0.9, 32768, 128},
    {"trn2", "dma_transpose dst=k src=h[0:128, 0, 128@1]", 0.5, 32768, 128},
    {"trn2", "dma_compute dst=t src0=a src1=t", 0.5, 2 * 262144, 256},
    {"trn2", "dma_copy dst=t src=a[0, 128@512 512@1, rows x*512]", 1, 262144, 128},
};

}  // namespace

TEST_CASE("DMA and sync rows refuse with operand, rule and fix") {
  for (const ErrorRow& row : kErrors) {
    CAPTURE(row.insn);
    const Judged got = judge(row.chip, row.engine, kTiles, row.insn);
    CAPTURE(got.error);
    CHECK_NE(got.error.find(row.summary), std::string::npos);
  }
}

TEST_CASE("transfers that are no plain copies") {
  for (const TransferRow& row : kTransfers) {
    CAPTURE(row.insn);
    std::string text = "program one\n";
    for (const auto t : split(kTiles, ';')) text += cat("tensor ", trim(t), "\n");
    const auto program = assemble(cat(text, "stream gpsimd\n  ", row.insn, "\n"), "one");
    REQUIRE(program);
    const Chip& chip = **find_chip(row.chip);
    const Insn& insn = program->streams[0].insns[0];
    const Transfer t = describe_transfer(chip, {*program, chip, insn, *row_by_opcode(insn.opcode), Engine::gpsimd});
    CHECK_EQ(t.rate_fraction, row.fraction);
    CHECK_EQ(t.bytes, row.bytes);
    CHECK_EQ(t.descriptors(), row.descriptors);
  }
}
