// Files of compiled models and weights: what is written reads back, and nothing hostile in them is believed.
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/format/safetensors.h"
#include "compile/aot/artifact.h"
#include "compile/aot/errors.h"
#include "compile/aot/parts.h"
#include "compile/aot/trn.h"
#include "compile/device/device.h"
#include "tests/compile/verify_each.h"
#include "tests/testing.h"  // last

using namespace trine;

namespace {

constexpr std::string_view kGraph = R"(graph "g" (%0: f32[4,8], %1: f32[8,16]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[4,16]
  return %2
})";

Tensor counted(Dims dims) {
  Tensor out = Tensor::make(Dtype::f32, std::move(dims));
  for (int64_t i = 0; i < out.view().elements(); ++i) out.view().as<float>()[i] = float(i);
  return out;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string safetensors(std::string_view header, size_t data) {
  const uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), 8);
  return out + std::string(header) + std::string(data, 'x');
}

}  // namespace

TEST_CASE("safetensors read back where they lie") {
  const Tensor a = counted({2, 3}), b = counted({});
  const NamedTensor tensors[] = {{"a", a.view()}, {"b", b.view()}};
  const auto text = write_safetensors(tensors);
  REQUIRE(text);
  const auto read = read_safetensors(bytes_of(*text), "file");
  REQUIRE_MESSAGE(read, read.error().text());
  REQUIRE(read->size() == 2);
  CHECK((*read)[0].name == "a");
  CHECK((*read)[0].tensor.dims == Dims{2, 3});
  CHECK(std::memcmp((*read)[0].tensor.data, a.data.get(), a.bytes()) == 0);
  CHECK((text->size() - a.bytes() - b.bytes()) % 64 == 0);
}

TEST_CASE("headers of safetensors are not believed") {
  const std::string_view hostile[] = {
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})",
      R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})",
      R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2]}})",
      R"({"a":)",
  };
  for (std::string_view header : hostile) {
    CAPTURE(header);
    CHECK(!read_safetensors(bytes_of(safetensors(header, 8)), "file"));
  }
  CHECK(!read_safetensors(bytes_of(std::string("short")), "file"));
  CHECK(!read_safetensors(bytes_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}")), "file"));
}

TEST_CASE("a layout never reads past its weight") {
  const Tensor weight = counted({8, 16});
  const auto parse = [](std::string_view text) { return compile::parse_inputs(*parse_json(text, "inputs")); };
  auto good = parse(R"([{"dtype":"f32","panels":{"batch":[],"depth":[[16,8]],"column":[1,16],"lanes":8,"chunks":1}}])");
  REQUIRE_MESSAGE(good, good.error().text());
  const auto laid = compile::prepare_input((*good)[0], weight.view());
  REQUIRE_MESSAGE(laid, laid.error().text());
  CHECK(std::memcmp(laid->data.get(), weight.data.get(), weight.bytes()) == 0);
  for (std::string_view panels : {R"({"batch":[],"depth":[[16,9]],"column":[1,16],"lanes":8,"chunks":1})",
                                  R"({"batch":[[128,2]],"depth":[[16,8]],"column":[1,16],"lanes":8,"chunks":1})",
                                  R"({"batch":[],"depth":[[16,8]],"column":[1,16],"lanes":8,"chunks":99})",
                                  R"({"batch":[],"depth":[[16,8]],"column":[1,16],"lanes":8,"chunks":1,"strip":17})",
                                  R"({"batch":[],"depth":[[16,8]],"column":[1,16],"lanes":8,"chunks":1,"strip":-1})",
                                  R"({"batch":[],"depth":[[1099511627776,8]],"column":[1,16],"lanes":8,"chunks":1})"}) {
    CAPTURE(panels);
    const auto inputs = parse("[{\"dtype\":\"f32\",\"panels\":" + std::string(panels) + "}]");
    CHECK((!inputs || !compile::prepare_input((*inputs)[0], weight.view())));
  }
  CHECK(!parse(R"([{"dtype":"f32","panels":{"batch":[],"depth":[],"column":[1,1],"lanes":8,"chunks":1}}])"));
  CHECK(!parse(R"([{"dtype":"f33"}])"));
}

TEST_CASE("parts read back, and none are believed that do not fit each other") {
  constexpr std::string_view kSplit = R"(graph "g" (%0: f32[4,4]) {
  %1 = tanh %0 : f32[4,4]
  %2 = cholesky %1 : f32[4,4]
  %3 = tanh %2 : f32[4,4]
  return %3
})";
  const ir::Graph graph = *compile::read_graph(kSplit, "graph");
  const arch::Chip& chip = **arch::find_chip("trn2");
  const auto made = compile::compile_split(graph, chip, {}, [&](const ir::Graph& part, const auto& own) {
    return compile::compile_device(part, chip, own, compile::kVerifiedProgram);
  });
  REQUIRE_MESSAGE(made, made.error().text());
  REQUIRE(made->parts.size() == 3);
  std::string programs;
  const std::string text = compile::parts_json(*made, programs).text();
  const auto parse = [&](const std::string& json) {
    return compile::parse_parts(*parse_json(json, "parts"), bytes_of(programs), compile::signature_of(graph), "file",
                                nullptr);
  };
  const auto again = parse(text);
  REQUIRE_MESSAGE(again, again.error().text());
  CHECK(again->host[0].op == "cholesky");
  CHECK(again->parts[1].on_host);
  CHECK(again->parts[2].device.program.instruction_count() == made->parts[2].device.program.instruction_count());
  const std::pair<std::string_view, std::string_view> hostile[] = {
      {"\"reads\": [0]", "\"reads\": [7]"},
      {"\"reads\": [0]", "\"reads\": [0,0]"},
      {"\"writes\": [1]", "\"writes\": [0]"},
      {"\"writes\": [1]", "\"writes\": [-1]"},
      {"\"program\": [0, ", "\"program\": [99999,"},
      {"\"program\": [0, ", "\"program\": [-1,"},
      {"\"dims\": [4, 4]", "\"dims\": [4,400]"},
      {"\"dims\": [4, 4]", "\"dims\": [4,-4]"},
      {"\"results\": [3]", "\"results\": []"},
      {"\"results\": [3]", "\"results\": [4]"},
      {": f32[4,4])", ": f32[5,5])"},
  };
  for (const auto& [from, to] : hostile) {
    CAPTURE(to);
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    CHECK(!parse(changed.replace(at, from.size(), to)));
  }
}

TEST_CASE("a .trn reads back, and a damaged one is refused") {
  const std::string path = (std::filesystem::temp_directory_path() / "trine-test-aot.trn").string();
  const Tensor weight = counted({8, 16});
  compile::Trn trn;
  trn.graph = *compile::read_graph(kGraph, "graph");
  trn.made = compile::whole(*compile::compile_device(trn.graph, **arch::find_chip("trn1"), {.weights = {false, true}}),
                            trn.graph);
  trn.flags.auto_cast = "matmult";
  trn.weights.values[1] = weight.view();
  REQUIRE(compile::write_trn(trn, path, compile::WeightsIn::file));
  CHECK(compile::is_trn(path));
  const auto again = compile::read_trn(path);
  REQUIRE_MESSAGE(again, again.error().text());
  CHECK(again->flags.auto_cast == "matmult");
  CHECK(again->made.only()->program.instruction_count() == trn.made.only()->program.instruction_count());
  REQUIRE(again->weights.values.count(1));
  CHECK(std::memcmp(again->weights.values.at(1).data, weight.data.get(), weight.bytes()) == 0);
  std::string file = *read_file(path);
  for (size_t at = 40; at < file.size(); at += file.size() / 50) {
    std::string damaged = file;
    damaged[at] ^= 0x20;
    REQUIRE(write_file(path, damaged));
    CHECK(!compile::read_trn(path));
  }
  std::filesystem::remove(path);
}

TEST_CASE("errors get their code once") {
  const Error plain =
      fail(Code::unsupported, "fft c64[8] cannot run on the device: the chip has no c64", "model.py:12");
  const Error coded = compile::coded(plain);
  CHECK(coded.message.starts_with("error NCC_EVRF004: complex numbers"));
  CHECK(coded.message.find("\n  --> model.py:12\n  found     fft c64[8]") != std::string::npos);
  CHECK(compile::coded(coded).message == coded.message);
  CHECK(compile::code_of(fail(Code::unsupported, "x cannot run on the device: no engine computes x")).code ==
        "NCC_EUOC002");
  CHECK(compile::code_of(fail(Code::out_of_memory,
                              "`t` needs 9 bytes per partition of sbuf while 8 are in use, the most by convolution 8"))
            .code == "NCC_EXSP001");
  CHECK(compile::code_of(fail(Code::out_of_memory, "at convolution, the program keeps 9 GB")).code == "NCC_EOOM001");
}
