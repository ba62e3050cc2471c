// custom_call: a call by name (call_target_name). Known targets are ops of their own here, or pass their inputs on;
// all others are refused by name. C1: what the op behind the target asks for.
#include "ops/custom_call.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "ir/op_ids.h"
#include "ops/shape.h"

namespace trine::ops {

namespace {

// The word after `key` in a dictionary's text: "{reduction_dim = 1 : i64, ...}".
std::optional<int64_t> number_in(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const bool starts = at == 0 || text[at - 1] == '{' || text[at - 1] == ' ' || text[at - 1] == '"';
    const std::string_view rest = text.substr(at + key.size());
    const size_t digit = rest.find_first_not_of("\"=: ");
    int64_t value = 0;
    if (starts && digit != 0 && digit != std::string_view::npos &&
        std::from_chars(rest.data() + digit, rest.data() + rest.size(), value).ec == std::errc{})
      return value;
  }
  return {};
}

ir::Attrs no_attrs(const ir::Attrs&) { return {}; }

// "lower,sort,sweeps,tolerance"
ir::Attrs eigh_attrs(const ir::Attrs& attrs) {
  const auto words = split(attrs.text("backend_config"), ',');
  return {{"lower", words.empty() || trim(words[0]) != "0"}, {"sort", words.size() < 2 || trim(words[1]) != "0"}};
}

ir::Attrs tridiagonal_attrs(const ir::Attrs& attrs) { return {{"lower", attrs.text("backend_config") != "0"}}; }

ir::Attrs tridiagonal_solve_attrs(const ir::Attrs& attrs) { return {{"perturb", attrs.text("backend_config") == "1"}}; }

ir::Attrs svd_attrs(const ir::Attrs& attrs) { return {{"full", attrs.text("backend_config") == "1"}}; }

ir::Attrs approx_top_k_attrs(const ir::Attrs& attrs) {
  return {{"dimension", number_in(attrs.text("backend_config"), "reduction_dim").value_or(-1)}};
}

// Targets that have a meaning of their own.
struct Target {
  std::string_view name = {};
  ir::OpId op = {};
  ir::Attrs (*attrs)(const ir::Attrs&) = no_attrs;
};
constexpr Target kTargets[] = {
    {"ApproxTopK", op::approx_top_k, approx_top_k_attrs},
    {"Eig", op::eig},
    {"Eigh", op::eigh, eigh_attrs},
    {"Hessenberg", op::hessenberg},
    {"LuDecomposition", op::lu},
    {"PivotedQr", op::pivoted_qr},
    {"ProductOfElementaryHouseholderReflectors", op::householder_product},
    {"Qr", op::qr},
    {"Schur", op::schur},
    {"Svd", op::svd, svd_attrs},
    {"Tridiagonal", op::tridiagonal, tridiagonal_attrs},
    {"TridiagonalSolve", op::tridiagonal_solve, tridiagonal_solve_attrs},
};

// Targets that say where or how a value is kept, and leave it as it is.
constexpr std::string_view kPassing[] = {
    "InspectSharding",      "LayoutConstraint",     "MoveToDevice", "MoveToHost", "Pin",
    "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding",     "Unpin",      "annotate_device_placement"};
// Functions of the user's own on the host: the executor's business, any types.
constexpr std::string_view kHostCall = "trine_host_call";
constexpr std::string_view kKernelCall = "AwsNeuronCustomNativeKernel";  // likewise
constexpr std::string_view kSink = "dce_sink";                           // computes nothing of what it is given
// Targets that give memory with nothing in it yet.
constexpr std::string_view kEmpty[] = {"AllocateBuffer", "CreateBuffer"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Target* find_target(std::string_view name) {
  for (const Target& t : kTargets)
    if (t.name == name) return &t;
  return nullptr;
}

Result<std::vector<ir::Type>> infer(const Call& call) {
  const std::string_view name = call.attrs.text("call_target_name");
  if (const Target* target = find_target(name)) {
    const ir::Attrs attrs = target->attrs(call.attrs);
    const Op* op = find_op(target->op);
    if (op->arity >= 0 && call.inputs.size() != size_t(op->arity))
      return fail(Code::invalid, cat(name, " takes ", op->arity, " inputs; ", call.inputs.size(), " given"));
    return op->infer({call.inputs, attrs, call.regions, call.declared});
  }
  std::vector<ir::Type> declared(call.declared.begin(), call.declared.end());
  if (is_one_of(kEmpty, name) || name == kHostCall || name == kKernelCall || name == kSink) return declared;
  if (!is_one_of(kPassing, name)) return fail(Code::unsupported, cat("there is no custom call `", name, "`"));
  if (declared.size() > call.inputs.size())
    return fail(Code::invalid, cat(name, " gives ", declared.size(), " results of ", call.inputs.size(), " inputs"));
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i].dtype != call.inputs[i].dtype || declared[i].elements() != call.inputs[i].elements())
      return fail(Code::invalid, cat(name, " of ", ir::text(call.inputs[i]), " cannot give ", ir::text(declared[i])));
  return declared;
}

Result<void> eval(const Eval& e) {
  const std::string_view name = e.node.attrs.text("call_target_name");
  if (const Target* target = find_target(name)) {
    ir::Node node = e.node;
    node.op = target->op;
    node.attrs = target->attrs(e.node.attrs);
    return find_op(target->op)->eval({node, e.in, e.out, e.regions});
  }
  if (name == kHostCall || name == kKernelCall) return fail(Code::unsupported, cat(name, " has no reference meaning"));
  for (size_t i = 0; i < e.out.size(); ++i) {
    if (e.node.types[i].is_token) continue;
    if (is_one_of(kEmpty, name))
      std::memset(e.out[i].data, 0, e.out[i].bytes());
    else
      copy_run(e.out[i], 0, e.in[i], 0, e.out[i].elements());
  }
  return {};
}

}  // namespace

const Op* called_op(const ir::Node& node) {
  const Target* target = find_target(node.attrs.text("call_target_name"));
  return target ? find_op(target->op) : nullptr;
}

extern const Op op_custom_call{.name = "custom_call",
                               .kind = OpKind::other,
                               .attrs = "call_target_name backend_config has_side_effect api_version",
                               .infer = infer,
                               .eval = eval,
                               .takes_tokens = true};

}  // namespace trine::ops
