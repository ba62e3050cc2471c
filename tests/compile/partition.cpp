// Partitioning: which collectives a program needs, and what cannot be cut says so. Values are held against JAX's CPU
// devices in tests/jax/test_sharding.py.
#include "compile/partition/partition.h"

#include <doctest/doctest.h>

#include "base/text.h"
#include "ir/op_ids.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace trine::compile {

static const char* const kMesh = "mesh = #sdy.mesh<[\"x\"=4, \"y\"=2]>";

static std::string sharding(const char* dims) { return cat("#sdy.sharding<@mesh, ", dims, ">"); }

struct Case {
  const char* name;
  std::vector<const char*> params;
  const char* result;       // its sharding; "": not said
  const char* collectives;  // in order of the program
  const char* body;
};

static const Case kCases[] = {
    {"elementwise needs none",
     {"[{\"x\"}, {\"y\"}]", "[{\"x\"}, {\"y\"}]"},
     "",
     "",
     "(%0: f32[16,8], %1: f32[16,8]) { %2 = add %0, %1 : f32[16,8] return %2 }"},
    {"rows times columns need none",
     {"[{\"x\"}, {}]", "[{}, {\"y\"}]"},
     "",
     "",
     "(%0: f32[16,8], %1: f32[8,4]) { %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], "
     "rhs_contract = [0]} : f32[16,4] return %2 }"},
    {"a cut contraction is summed",
     {"[{}, {\"x\"}]", "[{\"x\"}, {}]"},
     "[{}, {}]",
     "all_reduce",
     "(%0: f32[16,8], %1: f32[8,4]) { %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], "
     "rhs_contract = [0]} : f32[16,4] return %2 }"},
    {"and in parts where parts are wanted",
     {"[{}, {\"x\"}]", "[{\"x\"}, {}]"},
     "[{\"x\"}, {}]",
     "reduce_scatter",
     "(%0: f32[16,8], %1: f32[8,4]) { %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], "
     "rhs_contract = [0]} : f32[16,4] return %2 }"},
    {"an axis goes from one dim to another",
     {"[{\"x\"}, {}]"},
     "[{}, {\"x\"}]",
     "all_to_all",
     "(%0: f32[16,8]) { return %0 }"},
    {"whole from parts", {"[{\"x\"}, {}]"}, "[{}, {}]", "all_gather", "(%0: f32[16,8]) { return %0 }"},
    {"parts from whole", {"[{}, {}]"}, "[{\"x\"}, {\"y\"}]", "", "(%0: f32[16,8]) { return %0 }"},
    {"a sum in which all take part",
     {"[{\"x\"}, {\"y\"}]"},
     "",
     "all_reduce",
     "(%0: f32[16,8]) { %1 = constant {value = f32[] x00000000} : f32[] %2 = reduce %0, %1 {dimensions = [0, 1], kind "
     "= \"add\"} : f32[] return %2 }"},
};

static Result<Partitioned> partitioned(const char* mesh, const std::vector<std::string>& params,
                                       const std::string& result, const char* body) {
  std::string text = cat("graph \"g\" ", body);
  for (size_t i = 0, at = 0; i < params.size(); ++i) {
    at = text.find(']', at) + 1;
    const std::string declared = cat("@", ir::quoted(params[i]));
    text.insert(at, declared);
    at += declared.size();
  }
  ir::Graph graph = TRY(ir::parse_graph(text, "t"));
  graph.attrs.set("num_partitions", int64_t{8});
  graph.attrs.set("meshes", ir::Strings{mesh});
  graph.attrs.set("result_shardings", ir::Strings{result});
  return partition(graph);
}

TEST_CASE("a program's collectives") {
  for (const Case& c : kCases) {
    CAPTURE(std::string(c.name));
    std::vector<std::string> params;
    for (const char* p : c.params) params.push_back(sharding(p));
    const auto parts = partitioned(kMesh, params, *c.result ? sharding(c.result) : "", c.body);
    REQUIRE_MESSAGE(parts, parts.error().text());
    CHECK(ir::verify(parts->graph));
    std::string found;
    for (const ir::Node* node : parts->graph.order())
      for (std::string_view name : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"})
        if (node->op.name() == name) found += cat(found.empty() ? "" : " ", name);
    CHECK(found == c.collectives);
  }
}

TEST_CASE("devices in an order of their own give their parts to those whose places they have") {
  const char* mesh = "mesh = #sdy.mesh<[\"x\"=8], device_ids=[7, 0, 1, 2, 3, 4, 5, 6]>";
  const std::string cut = "#sdy.sharding<@mesh, [{\"x\"}, {}]>", whole = "#sdy.sharding<@mesh, [{}, {}]>";
  const auto permutations = [&](const std::string& in, const std::string& out) {
    const auto parts = partitioned(mesh, {in}, out, "(%0: f32[16,8]) { %1 = negate %0 : f32[16,8] return %1 }");
    REQUIRE_MESSAGE(parts, parts.error().text());
    CHECK(ir::verify(parts->graph));
    CHECK(parts->shardings.inputs[0] == (in == cut ? "{devices=[8,1]7,0,1,2,3,4,5,6}" : "{replicated}"));
    std::vector<ir::Ints> found;
    for (const ir::Node* node : parts->graph.order())
      if (node->op == op::collective_permute) found.push_back(node->attrs.ints("source_target_pairs"));
    return found;
  };
  const ir::Ints in = {7, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7};
  const ir::Ints back = {0, 7, 1, 0, 2, 1, 3, 2, 4, 3, 5, 4, 6, 5, 7, 6};
  CHECK(permutations(cut, cut) == std::vector<ir::Ints>{in, back});
  CHECK(permutations(whole, cut) == std::vector<ir::Ints>{back});
  CHECK(permutations(whole, whole).empty());
}

TEST_CASE("shardings that cannot be read or used are errors") {
  const char* body = "(%0: f32[16,8]) { return %0 }";
  const std::pair<const char*, const char*> kBad[] = {
      {kMesh, "#sdy.sharding<@mesh, [{\"z\"}, {}]>"},
      {kMesh, "#sdy.sharding<@mesh, [{\"x\"}, {\"x\"}]>"},
      {kMesh, "#sdy.sharding<@mesh, [{\"x\"}, {}, {}]>"},
      {kMesh, "#sdy.sharding<@mesh, [{\"x\""},
      {kMesh, "#sdy.sharding<@mesh, [{\"x\":(3)7}, {}]>"},
      {kMesh, "#sdy.sharding<@mesh, [{\"x\":(9223372036854775807)9223372036854775807}, {}]>"},
      {kMesh, "#sdy.sharding<@mesh, [{}, {}], unreduced={\"z\"}>"},
      {kMesh, "#sdy.sharding<@mesh, [{}, {}], unreduced={\"x\""},
      {kMesh, "{devices=[8,1]<=[8]}"},
      {kMesh, "nothing"},
      {"mesh = #sdy.mesh<[\"x\"=3]>", "#sdy.sharding<@mesh, [{\"x\"}, {}]>"},
      {"mesh = #sdy.mesh<[\"x\"=8], device_ids=[1, 1, 2, 3, 4, 5, 6, 7]>", "#sdy.sharding<@mesh, [{\"x\"}, {}]>"},
      {"mesh = #sdy.mesh<[\"x\"=8], device_ids=[1, 0, 2]>", "#sdy.sharding<@mesh, [{\"x\"}, {}]>"},
      {"mesh = #sdy.mesh<[\"x\"=9223372036854775807]>", "#sdy.sharding<@mesh, [{\"x\"}, {}]>"},
      {"mesh = #sdy.mesh<[\"x\"=0]>", "#sdy.sharding<@mesh, [{\"x\"}, {}]>"},
      {"mesh", "#sdy.sharding<@mesh, [{\"x\"}, {}]>"},
  };
  for (const auto& [mesh, text] : kBad) {
    CAPTURE(std::string(mesh));
    CAPTURE(std::string(text));
    const auto parts = partitioned(mesh, {text}, "", body);
    REQUIRE(!parts);
    CHECK(!parts.error().text().starts_with("t:"));  // not the reader of graphs, but of shardings
  }
}

}  // namespace trine::compile
