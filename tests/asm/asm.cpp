// The assembler on hand-written text: what it reads, what the canonical text is, and where errors point.
#include "arch/asm/asm.h"

#include "arch/program/builder.h"
#include "arch/row.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

std::string canonical(std::string_view text) {
  auto program = assemble(text, "t.tasm");
  if (!program) return "error " + program.error().text();
  const std::string printed = disassemble(*program);
  auto again = assemble(printed, "again.tasm");
  if (!again) return "error in canonical text " + again.error().text() + "\n" + printed;
  CHECK(disassemble(*again) == printed);
  return printed;
}

constexpr std::string_view kHead =
    "program p\n"
    "tensor a hbm f32[128,512] input\n"
    "tensor t sbuf f32[128,512]\n"
    "tensor i sbuf u32[128,1]\n"
    "tensor acc psum f32[128,512]\n"
    "stream sync\n";

std::string in_stream(std::string_view lines) { return canonical(std::string(kHead) + std::string(lines)); }

std::string last_line(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  text = text.substr(text.rfind('\n') + 1);
  return text.substr(std::min(text.size(), text.find_first_not_of(' ')));
}

}  // namespace

TEST_CASE("canonical text is its own canonical text") {
  const std::string_view text =
      "program matmul_tile\n"
      "chip trn2\n"
      "producer \"hand, 1\"\n"
      "cores 2\n"
      "tensor a hbm f32[128,512] input\n"
      "tensor out hbm f32[128,512] output alias a\n"
      "tensor t sbuf f32[128,512] at 0:0\n"
      "tensor t1 sbuf bf16[64,512] at 1.32:128\n"
      "const w hbm f32[4] fill 1.5\n"
      "const v hbm u8[3] = 0x0102ff\n"
      "const external hbm bf16[4096,4096]\n"
      "stream sync\n"
      "  loop 4\n"
      "    dma_copy dst=t[0:128, 128*i0, 128@1] src=a[128*i0, 128@512 128@1] queue=3 wait s4>=1+2*i0 then s0+=16 at "
      "kernel.py:12\n"
      "  end_loop\n"
      "stream 1.tensor\n"
      "L0:\n"
      "  register_alu dst=r1 a=r1 b=1 op=add\n"
      "  branch a=r1 b=8 cmp=lt to=L0\n"
      "  jump to=L1 at \"odd name.py\":3\n"
      "L1:\n";
  CHECK(canonical(text) == text);
}

TEST_CASE("what may be left out is filled in") {
  CHECK(in_stream("dma_copy t a") == std::string("program p\n"
                                                 "tensor a hbm f32[128,512] input\n"
                                                 "tensor t sbuf f32[128,512] at 0:0\n"
                                                 "tensor i sbuf u32[128,1] at 0:2048\n"
                                                 "tensor acc psum f32[128,512] at 0:0\n"
                                                 "stream sync\n"
                                                 "  dma_copy dst=t src=a\n"));
}

TEST_CASE("operands") {
  const auto dma = [](std::string_view dst, std::string_view src) {
    return last_line(in_stream("dma_copy dst=" + std::string(dst) + " src=" + std::string(src)));
  };
  CHECK(dma("t[0:128,0,512@1]", "a[0, 128@512 512@1]") == "dma_copy dst=t src=a");
  CHECK(dma("t:u32[ 32 : 32 , 4 , 2@16 4@2 ]", "a[-4+8*r3]") ==
        "dma_copy dst=t:u32[32:32, 4, 2@16 4@2] src=a[-4+8*r3]");
  CHECK(dma("t", "a[r2*512, 128@0 512@1]") == "dma_copy dst=t src=a[512*r2, 128@0 512@1]");
  CHECK(dma("t", "a[0, 128@0 512@1, rows i*512]") == "dma_copy dst=t src=a[0, 128@0 512@1, rows i*512]");
  CHECK(dma("t:bf16", "a:bf16") == "dma_copy dst=t:bf16 src=a:bf16");
  CHECK(last_line(in_stream("register_move dst=r1 src=-2.5e1")) == "register_move dst=r1 src=-25");
}

TEST_CASE("errors say where, what was found and what was meant") {
  const auto error = [](std::string_view lines) { return in_stream(lines); };
  CHECK(error("dma_cpy t a") == "error t.tasm:7:1: no instruction is named `dma_cpy`; did you mean `dma_copy`?");
  CHECK(error("dma_copy dts=t src=a") ==
        "error t.tasm:7:10: dma_copy has no operand or attribute `dts`; did you mean `dst`?");
  CHECK(error("dma_copy dst=tt src=a") == "error t.tasm:7:14: no tensor is named `tt`; did you mean `t`?");
  CHECK(error("dma_copy dst=t:f23 src=a") == "error t.tasm:7:16: no dtype is named `f23`; did you mean `f32`?");
  CHECK(error("dma_copy dst=t src=a oob=skp") == "error t.tasm:7:26: `skp` is no oob for `oob`; did you mean `skip`?");
  CHECK(error("dma_copy dst=t") == "error t.tasm:7:10: operand `src` of dma_copy is missing");
  CHECK(error("jump") == "error t.tasm:7:5: attribute `to` of jump is missing");
  CHECK(error("top:\njump to=tpo") == "error t.tasm:8:9: no label `tpo` in this stream; did you mean `top`?");
  CHECK(error("dma_copy dst=t[0:128, i0] src=a") ==
        "error t.tasm:7:23: found `i0`, expected no loop index: no loop is open here");
  CHECK(error("dma_copy dst=t[0:128 0] src=a") == "error t.tasm:7:22: found `0`, expected `,` and the offset");
  CHECK(error("dma_copy t a wait 3") == "error t.tasm:7:19: found `3`, expected a semaphore (s0…)");
  CHECK(error("tensor t sbuf f32[1]") == "error t.tasm:7:8: a tensor named `t` is already there");
  CHECK(error("stream vectr") ==
        "error t.tasm:7:8: no engine is named `vectr`; expected one of tensor, vector, scalar, gpsimd, sync");
  CHECK(error("end_loop") == "error t.tasm:7:1: `end_loop` without a `loop` above it");
  CHECK(error("dma_copy dst=t src=a src=a") == "error t.tasm:7:22: found a second `src`");
  CHECK(error("const w hbm f32[2] = 0x00") == "error t.tasm:7:20: found 1 bytes, expected 8 for this shape");
}
