// Properties over every row: text and container give back the same program, byte for byte; no byte of a file can be
// changed unseen; what is wrong inside a well-sealed file is found by its structure.
#include <random>

#include "arch/asm/asm.h"
#include "arch/program/container.h"
#include "arch/program/verify.h"
#include "base/text.h"
#include "tests/asm/random_program.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

using FileBytes = std::vector<std::byte>;

void check_round_trip(const Program& p) {
  const auto findings = check_structure(p);
  REQUIRE_MESSAGE(findings.empty(), findings[0].error.text());
  const std::string text = disassemble(p);
  CAPTURE(text);
  const auto again = assemble(text, "again.tasm");
  REQUIRE_MESSAGE(again, again.error().text());
  CHECK(disassemble(*again) == text);
  const FileBytes file = program_bytes(p);
  CHECK(program_bytes(*again) == file);

  const auto read = parse_program(file, "p.tprog");
  REQUIRE_MESSAGE(read, read.error().text());
  CHECK(program_bytes(*read) == file);
  CHECK(disassemble(*read) == text);
}

FileBytes small_file() {
  auto p = assemble(
      "program small\n"
      "tensor a hbm f32[128,64] input\n"
      "const w hbm u8[5] = 0x0102030405\n"
      "tensor t sbuf f32[128,64]\n"
      "stream sync\n"
      "loop 2\n"
      "dma_copy dst=t src=a[64*i0, 128@64 64@1] wait s0>=1+16*i0 then s0+=16 at k.py:3\n"
      "end_loop\n"
      "jump to=end\n"
      "end:\n",
      "small.tasm");
  REQUIRE_MESSAGE(p, p.error().text());
  return program_bytes(*p);
}

}  // namespace

TEST_CASE("assemble and disassemble are inverse for every row") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    check_round_trip(RandomProgram(seed).make(true));
  }
}

TEST_CASE("small random programs round trip, and every chip's verifier has an answer") {
  for (uint64_t seed = 1000; seed < 1400; ++seed) {
    CAPTURE(seed);
    const Program p = RandomProgram(seed).make(false);
    check_round_trip(p);
    for (const Chip& chip : all_chips())
      for (const Finding& f : verify(p, chip)) CHECK(!f.error.message.empty());
  }
}

TEST_CASE("no byte of a file can change unseen") {
  const FileBytes file = small_file();
  for (size_t i = 0; i < file.size(); ++i)
    for (int flip : {0x01, 0x80, 0xff}) {
      FileBytes changed = file;
      changed[i] ^= static_cast<std::byte>(flip);
      if (parse_program(changed, "x")) FAIL("byte ", i, " flipped by ", flip, " was not seen");
    }
}

TEST_CASE("a file cut anywhere, or longer than it says, is refused") {
  FileBytes file = small_file();
  for (size_t n = 0; n < file.size(); ++n)
    if (parse_program(std::span(file).first(n), "x")) FAIL("a file cut to ", n, " bytes was read");
  file.push_back(std::byte{0});
  CHECK(!parse_program(file, "x"));
}

TEST_CASE("a sealed file with any byte changed is read or refused, never trusted") {
  std::mt19937_64 random(7);
  const FileBytes file = small_file();
  int read = 0;
  for (size_t i = 0; i < file.size(); ++i)
    for (int n = 0; n < 6; ++n) {
      FileBytes changed = file;
      changed[i] ^= static_cast<std::byte>(1 + random() % 255);
      if (!seal(changed)) continue;
      const auto p = parse_program(changed, "x");
      if (!p) continue;
      ++read;
      const std::string text = disassemble(*p);
      const auto again = assemble(text, "y");
      REQUIRE_MESSAGE(again, again.error().text(), "\n", text);
      CHECK(disassemble(*again) == text);
      for (const Chip& chip : all_chips()) verify(*p, chip);
    }
  CHECK(read > 100);  // names, offsets and values may change
}

TEST_CASE("a later version is said to be one") {
  FileBytes file = small_file();
  file[8] = std::byte{2};
  REQUIRE(seal(file));
  const auto p = parse_program(file, "new.tprog");
  REQUIRE(!p);
  CHECK(p.error().code == Code::unsupported);
  CHECK(p.error().text() == "new.tprog: program version 2; this build reads up to 1");
}

TEST_CASE("a section that nobody knows is skipped, a doubled one is not") {
  FileBytes file = small_file();
  // The table's reserved word tells nothing, so the constants can stand for a later build's section.
  const size_t last = 32 + 8 * 32;
  file[last] = std::byte{77};
  REQUIRE(seal(file));
  const auto missing = parse_program(file, "x");
  REQUIRE(!missing);
  CHECK(missing.error().message == "not a sound program file: section 9 is missing");
  file[last] = std::byte{8};
  REQUIRE(seal(file));
  CHECK(parse_program(file, "x").error().message == "not a sound program file: section 8 is there twice");
}

TEST_CASE("an instruction that has changed since the file was written is refused by name") {
  FileBytes file = small_file();
  const std::string_view whole(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t at = whole.find("dma_copy dst:w");
  REQUIRE(at != std::string_view::npos);
  file[at + 9] = std::byte{'x'};
  REQUIRE(seal(file));
  const auto p = parse_program(file, "old.tprog");
  REQUIRE(!p);
  CHECK(p.error().code == Code::unsupported);
  CHECK(p.error().message.starts_with("the file was written for `dma_copy xst:w"));
}

TEST_CASE("files are written and mapped") {
  const std::string path = "round_trip_test.tprog";
  const FileBytes file = small_file();
  const auto p = parse_program(file, "x");
  REQUIRE(p);
  REQUIRE(write_program(*p, path));
  const auto read = load_program(path);
  REQUIRE_MESSAGE(read, read.error().text());
  CHECK(program_bytes(*read) == file);
  CHECK(read->data.size() == p->data.size());
  std::remove(path.c_str());
  CHECK(load_program(path).error().code == Code::not_found);
}
