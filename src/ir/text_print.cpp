// Graph to text.
#include <cmath>
#include <unordered_map>

#include "base/number/scalar.h"
#include "base/text.h"
#include "ir/op_ids.h"
#include "ir/text.h"

namespace trine::ir {

namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2 + 1);
  out += 'x';
  for (std::byte b : bytes) out += kHex[size_t(b) >> 4], out += kHex[size_t(b) & 15];
  return out;
}

std::string tensor_text(const Tensor& t, int64_t limit) {
  const size_t each = size_t(bytes(t.dtype));
  std::string out = shape_text(t.dtype, t.dims);
  if (t.bytes() > each && is_splat(t)) return out + " all " + hex({t.data.get(), each});
  if (limit >= 0 && int64_t(t.bytes()) > limit) return out + " ...";
  return out + " " + hex({t.data.get(), t.bytes()});
}

template <class T, class F>
std::string listed(const std::vector<T>& items, const char* ends, F&& one) {
  std::string out(1, ends[0]);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append_text(out, one(items[i]));
  }
  return out + ends[1];
}

class Printer {
 public:
  explicit Printer(const Graph& graph, const PrintOptions& options) : graph_(graph), options_(options) {}

  std::string all() {
    append_text(out_, cat("graph ", quoted(graph_.name), " ", params(graph_.params)));
    if (!graph_.attrs.items().empty()) append_text(out_, cat(" ", attrs(graph_.attrs)));
    if (!graph_.donations.empty())
      append_text(out_, cat(" donate ", listed(graph_.donations, "[]", [](int d) { return cat(d); })));
    out_ += " {\n";
    body(graph_.order(), graph_.results, graph_.effects, "  ");
    return out_ + "}\n";
  }

  // What the node uses is numbered first, in its order.
  std::string alone(const Node& node) {
    for (const auto* used : {&node.inputs, &node.captures})
      for (const Value& v : *used) number(v.node);
    line(node, "");
    return out_;
  }

 private:
  std::string name(const Value& v) {
    const std::string base = cat("%", numbers_.at(v.node));
    return v.node->types.size() <= 1 ? base : cat(base, "#", v.index);
  }
  uint32_t number(const Node* node) { return numbers_.emplace(node, uint32_t(numbers_.size())).first->second; }
  std::string params(const std::vector<Value>& values) {
    return listed(values, "()", [&](const Value& v) { return cat("%", number(v.node), ": ", type(v.type())); });
  }
  std::string type(const Type& t) { return text(t); }
  std::string values(const std::vector<Value>& values) {
    std::string out;
    for (size_t i = 0; i < values.size(); ++i) append_text(out, cat(i ? ", " : "", name(values[i])));
    return out;
  }
  std::string attr(const Attr& a) {
    struct One {
      int64_t limit;
      std::string operator()(bool v) const { return v ? "true" : "false"; }
      std::string operator()(int64_t v) const { return cat(v); }
      std::string operator()(double v) const { return cat("real ", std::isnan(v) ? "nan" : shortest(v)); }
      std::string operator()(const std::string& v) const { return quoted(v); }
      std::string operator()(const Ints& v) const {
        return listed(v, "[]", [](int64_t i) { return cat(i); });
      }
      std::string operator()(const Strings& v) const {
        return listed(v, "()", [](const std::string& s) { return quoted(s); });
      }
      std::string operator()(Dtype v) const { return cat("dtype ", row(v).name); }
      std::string operator()(const Tensor& v) const { return tensor_text(v, limit); }
    };
    return std::visit(One{options_.constants}, a);
  }
  std::string attrs(const Attrs& all) {
    return listed(all.items(), "{}", [&](const Attrs::Item& i) { return cat(i.first, " = ", attr(i.second)); });
  }
  void body(const std::vector<const Node*>& nodes, const std::vector<Value>& results, const std::vector<Value>& effects,
            const std::string& indent) {
    for (const Node* node : nodes)
      if (node->op != op::parameter) line(*node, indent);
    if (!effects.empty()) append_text(out_, cat(indent, "keep ", values(effects), "\n"));
    append_text(out_, cat(indent, "return ", values(results), "\n"));
  }
  void line(const Node& node, const std::string& indent) {
    // Regions first: their numbers come before the node's, as its inputs' do.
    std::string head = cat(node.op, node.is_unique ? "!" : "", " ", values(node.inputs));
    while (head.back() == ' ') head.pop_back();
    if (!node.attrs.items().empty()) append_text(head, cat(" ", attrs(node.attrs)));
    std::string before;
    std::swap(before, out_);
    std::string inner;
    for (const Region& region : node.regions) {
      append_text(out_, cat(" ", params(region.params), " {\n"));
      body(body_of(region).nodes, region.results, region.effects, indent + "  ");
      append_text(out_, cat(indent, "}"));
    }
    std::swap(inner, out_);
    out_ = std::move(before);
    append_text(out_, cat(indent, "%", number(&node), " = ", head, inner, " : "));
    for (size_t i = 0; i < node.types.size(); ++i) append_text(out_, cat(i ? ", " : "", type(node.types[i])));
    if (node.types.empty()) out_ += "()";
    if (options_.locations && node.where) append_text(out_, cat(" at ", quoted(graph_.location(node.where))));
    out_ += '\n';
  }

  const Graph& graph_;
  const PrintOptions& options_;
  std::string out_;
  std::unordered_map<const Node*, uint32_t> numbers_;
};

}  // namespace

std::string text(const Attr& attr) {
  Graph none;
  none.attrs.set("a", attr);
  const std::string all = text(none, {.constants = 64});
  const size_t from = all.find("a = ") + 4;
  return all.substr(from, all.rfind("} {") - from);
}

std::string text(const Graph& graph, const PrintOptions& options) { return Printer(graph, options).all(); }
std::string text(const Graph& graph, const Node& node, const PrintOptions& options) {
  return Printer(graph, options).alone(node);
}

}  // namespace trine::ir
