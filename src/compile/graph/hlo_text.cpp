// Regions become computations before the one that calls them; a node of several results a tuple and its elements.
#include "compile/graph/hlo_text.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ir/value_hash.h"

namespace trine::compile {

namespace {

using ir::Node;
using ir::Value;

constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"broadcast_in_dim", "broadcast"}, {"dot_general", "dot"}, {"case", "conditional"}};

std::string opcode(std::string_view op) {
  const auto* found = std::find_if(std::begin(kNames), std::end(kNames), [&](auto& n) { return n.first == op; });
  std::string out(found == std::end(kNames) ? op : found->second);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

template <class T, class F>
std::string listed(const std::vector<T>& items, std::string_view between, F&& one) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) append_text(out, cat(i ? between : "", one(items[i])));
  return out;
}

std::string numbers(const std::vector<int64_t>& list) {
  return listed(list, ",", [](int64_t n) { return cat(n); });
}

// "f32[4,8]{1,0}"
std::string shape(const ir::Type& type) {
  if (type.is_token) return "token[]";
  std::vector<int64_t> order;
  for (size_t d = type.dims.size(); d-- > 0;) order.push_back(int64_t(d));
  const std::string_view name = type.dtype == Dtype::boolean ? "pred" : row(type.dtype).name;
  return cat(name, "[", numbers(type.dims), "]", order.empty() ? "" : cat("{", numbers(order), "}"));
}

std::string shape(const std::vector<ir::Type>& types) {
  const auto one = [](const ir::Type& t) { return shape(t); };
  return types.size() == 1 ? shape(types[0]) : cat("(", listed(types, ", ", one), ")");
}

std::vector<ir::Type> types_of(const std::vector<Value>& values) {
  std::vector<ir::Type> out;
  for (const Value& v : values) out.push_back(v.type());
  return out;
}

template <class T>
std::string element_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (requires { value.real(); })
    return cat("(", value.real(), ", ", value.imag(), ")");
  else
    return cat(value);
}

struct AttrText {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return cat(v); }
  std::string operator()(double v) const { return cat(v); }
  std::string operator()(const std::string& v) const { return cat("\"", v, "\""); }
  std::string operator()(const ir::Ints& v) const { return cat("{", numbers(v), "}"); }
  std::string operator()(const ir::Strings& v) const {
    return cat("{", listed(v, ",", [](const std::string& s) { return s; }), "}");
  }
  std::string operator()(Dtype v) const { return std::string(row(v).name); }
  std::string operator()(const Tensor& v) const {
    if (!v.dims.empty()) return "{...}";
    return dispatch_element(v.dtype, [&](auto element) {
      using E = decltype(element);
      return element_text(E::load(*v.view().template as<const typename E::Storage>()));
    });
  }
};

// "{{0,1},{2,3}}"
std::string groups_text(const Node& node) {
  const ir::Ints& flat = node.attrs.ints("replica_groups");
  const auto size = size_t(std::max<int64_t>(1, node.attrs.integer("group_size", 1)));
  std::vector<ir::Ints> groups;
  for (size_t i = 0; i < flat.size(); i += size)
    groups.emplace_back(flat.begin() + int64_t(i), flat.begin() + int64_t(std::min(flat.size(), i + size)));
  return cat("{", listed(groups, ",", [](const ir::Ints& g) { return cat("{", numbers(g), "}"); }), "}");
}

// Of a location "model.py:12 (jit(f)/sin)".
std::string metadata(std::string_view location) {
  const size_t name = location.ends_with(')') ? location.find(" (") : std::string_view::npos;
  if (name == std::string_view::npos) return cat(", metadata={op_name=\"", location, "\"}");
  const std::string_view file = location.substr(0, name), inner = location.substr(name + 2, location.size() - name - 3);
  const size_t line = std::min(file.rfind(':'), file.size());
  return cat(", metadata={op_name=\"", inner, "\" source_file=\"", file.substr(0, line), "\"",
             line < file.size() ? cat(" source_line=", file.substr(line + 1)) : "", "}");
}

class Printer {
 public:
  Printer(const ir::Graph& graph, const ShardingTexts& shardings) : graph_(graph), shardings_(shardings) {}

  std::string all(int64_t partitions) {
    std::string main = computation("main", graph_.params, graph_.order(), graph_.results, true);
    const std::vector<ir::Type> in = types_of(graph_.params), out = types_of(graph_.results);
    const auto one = [](const ir::Type& t) { return shape(t); };
    return cat("HloModule ", graph_.name, aliases(), ", entry_computation_layout={(", listed(in, ", ", one), ")->",
               shape(out), "}", partitions > 1 ? cat(", num_partitions=", partitions) : "", "\n\n", before_, "ENTRY ",
               main);
  }

 private:
  std::string aliases() const {
    std::vector<std::string> all;
    for (size_t i = 0; i < graph_.donations.size(); ++i)
      if (const int to = graph_.donations[i]; to >= 0)
        all.push_back(cat(" {", graph_.results.size() == 1 ? "" : cat(to), "}: (", i, ", {}, may-alias)"));
    if (all.empty()) return "";
    return cat(", input_output_alias={", listed(all, ",", [](const std::string& a) { return a; }), " }");
  }

  std::string fresh(std::string_view base) { return cat("%", base, ".", ++count_); }
  std::string name(const Value& v) const {
    const auto found = names_.find(v);
    return found == names_.end() ? "%outside" : found->second;
  }
  std::string names(const std::vector<Value>& values) const {
    return listed(values, ", ", [&](const Value& v) { return name(v); });
  }

  std::string computation(std::string_view base, const std::vector<Value>& params,
                          const std::vector<const Node*>& nodes, const std::vector<Value>& results, bool is_entry) {
    std::string out;
    for (size_t i = 0; i < params.size(); ++i) {
      names_[params[i]] = fresh("parameter");
      append_text(out, cat("  ", name(params[i]), " = ", shape(params[i].type()), " parameter(", i, ")"));
      if (is_entry && i < shardings_.inputs.size()) append_text(out, cat(", sharding=", shardings_.inputs[i]));
      out += "\n";
    }
    for (const Node* node : nodes)
      if (node->op != op::parameter) append_text(out, line(*node));
    const size_t root = results.size() == 1 ? out.find(cat("  ", name(results[0]), " = ")) : std::string::npos;
    if (root != std::string::npos)
      out.insert(root + 2, "ROOT ");
    else
      append_text(out,
                  cat("  ROOT ", fresh("tuple"), " = ", shape(types_of(results)), " tuple(", names(results), ")\n"));
    out += "}\n";
    const auto param = [&](const Value& v) { return cat(name(v).substr(1), ": ", shape(v.type())); };
    return cat(is_entry ? "%main" : fresh(base), " (", listed(params, ", ", param), ") -> ", shape(types_of(results)),
               " {\n", out);
  }

  std::string line(const Node& node) {
    std::string called;
    for (const ir::Region& region : node.regions) {
      const std::string text = computation("region", region.params, ir::body_of(region).nodes, region.results, false);
      append_text(before_, text + "\n");
      append_text(called, cat(called.empty() ? ", called_computations={" : ", ", text.substr(0, text.find(' '))));
    }
    if (!called.empty()) called += "}";
    const std::string own = fresh(opcode(node.op.name()));
    const Tensor* constant = ir::constant_of(node);
    std::string out = cat("  ", own, " = ", shape(node.types), " ", opcode(node.op.name()), "(",
                          constant ? AttrText()(*constant) : names(node.inputs), ")", attrs(node), called);
    if (node.where) append_text(out, metadata(graph_.location(node.where)));
    out += "\n";
    for (uint32_t r = 0; r < node.types.size(); ++r) {
      names_[node.result(r)] = node.types.size() == 1 ? own : fresh("get-tuple-element");
      if (node.types.size() > 1)
        append_text(out, cat("  ", name(node.result(r)), " = ", shape(node.types[r]), " get-tuple-element(", own,
                             "), index=", r, "\n"));
    }
    return out;
  }

  std::string attrs(const Node& node) const {
    std::string out;
    for (const auto& [key, value] : node.attrs.items()) {
      if (key == "value" || key == "group_size") continue;
      if (key == "replica_groups")
        append_text(out, cat(", replica_groups=", groups_text(node)));
      else
        append_text(out, cat(", ", key == "call_target_name" ? "custom_call_target" : std::string_view(key), "=",
                             std::visit(AttrText(), value)));
    }
    return out;
  }

  const ir::Graph& graph_;
  const ShardingTexts& shardings_;
  std::unordered_map<Value, std::string, ir::ValueHash> names_;
  std::string before_;
  int64_t count_ = 0;
};

}  // namespace

std::string hlo_text(const ir::Graph& graph, const ShardingTexts& shardings, int64_t partitions) {
  return Printer(graph, shardings).all(partitions);
}

}  // namespace trine::compile
