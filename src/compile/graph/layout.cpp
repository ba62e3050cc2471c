// Reads the texts that the front-end left among the graph's attributes; the program's nodes are made anew over
// transposed parameters.
#include "compile/graph/layout.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "ir/rewrite.h"
#include "ops/build.h"

namespace trine::compile {

namespace {

Dims row_major(size_t rank) {
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) out[i] = int64_t(rank - 1 - i);
  return out;
}

// "{0,1}"; "auto" leaves the choice to us.
Result<Dims> parse(std::string_view text, const ir::Type& type) {
  if (text.empty() || text == "auto") return Dims();
  const auto wrong = [&](std::string_view why) {
    return fail(Code::unsupported, cat("the layout ", text, " of ", ir::text(type), ": ", why));
  };
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return wrong("expected an order of dims, as {1,0}");
  // Sub-byte elements are said to be packed, "{1,0:E(4)}"; here each has a byte, which no program can see.
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos && text.substr(colon) != cat(":E(", row(type.dtype).bits, ")}"))
    return wrong("tensors in HBM have no tiles");
  Dims out;
  for (const std::string_view word : split(text.substr(1, std::min(colon, text.size() - 1) - 1), ',')) {
    const std::string_view digits = trim(word);
    int64_t dim = 0;
    if (digits.empty() && type.rank() == 0) continue;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), dim);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) return wrong("a dim is no number");
    out.push_back(dim);
  }
  Dims sorted = out, all = row_major(size_t(type.rank()));
  std::sort(sorted.begin(), sorted.end());
  std::reverse(all.begin(), all.end());
  if (sorted != all) return wrong(cat("expected each of ", type.rank(), " dims once"));
  return out == row_major(out.size()) ? Dims() : out;
}

Result<std::vector<Dims>> parse_all(const ir::Strings& texts, const std::vector<ir::Value>& values) {
  std::vector<Dims> out(values.size());
  for (size_t i = 0; i < std::min(texts.size(), values.size()); ++i) out[i] = TRY(parse(texts[i], values[i].type()));
  return out;
}

ir::Value transposed(ir::Graph& graph, const ir::Value& x, const Dims& permutation) {
  return ops::Make(graph, x.node->where).transpose(x, permutation);
}

Dims inverse(const Dims& permutation) {
  Dims out(permutation.size());
  for (size_t i = 0; i < out.size(); ++i) out[size_t(permutation[i])] = int64_t(i);
  return out;
}

}  // namespace

bool Layouts::are_all_default() const {
  const auto is_default = [](const Dims& d) { return d.empty(); };
  return std::all_of(params.begin(), params.end(), is_default) &&
         std::all_of(results.begin(), results.end(), is_default);
}

Dims major_to_minor(const Dims& layout) { return {layout.rbegin(), layout.rend()}; }

Dims dims_in_memory(const Dims& dims, const Dims& layout) {
  if (layout.empty()) return dims;
  Dims out;
  for (int64_t d : major_to_minor(layout)) out.push_back(dims[size_t(d)]);
  return out;
}

Dims dims_from_memory(const Dims& in_memory, const Dims& layout) {
  if (layout.empty()) return in_memory;
  Dims out;
  for (int64_t d : inverse(major_to_minor(layout))) out.push_back(in_memory[size_t(d)]);
  return out;
}

std::string layout_text(const Dims& layout, size_t rank) {
  std::string out = "{";
  for (int64_t d : layout.empty() ? row_major(rank) : layout) out += cat(out.size() > 1 ? "," : "", d);
  return out + "}";
}

Result<Layouts> layouts_of(const ir::Graph& graph) {
  return Layouts{TRY(parse_all(graph.attrs.strings("parameter_layouts"), graph.params)),
                 TRY(parse_all(graph.attrs.strings("result_layouts"), graph.results))};
}

ir::Graph as_they_lie(ir::Graph graph, const Layouts& layouts) {
  if (layouts.are_all_default()) return graph;
  const ir::Region program{graph.params, graph.results, graph.effects};
  std::vector<ir::Value> args = graph.params;
  for (size_t i = 0; i < args.size(); ++i) {
    if (layouts.params[i].empty()) continue;
    const ir::Type& type = args[i].type();
    graph.params[i] =
        graph.parameter(ir::tensor_type(type.dtype, dims_in_memory(type.dims, layouts.params[i])), args[i].node->where);
    args[i] = transposed(graph, graph.params[i], inverse(major_to_minor(layouts.params[i])));
  }
  const std::vector<ir::Value> made = ir::inlined(graph, program, args);
  const size_t count = graph.results.size();
  for (size_t i = 0; i < made.size(); ++i) (i < count ? graph.results[i] : graph.effects[i - count]) = made[i];
  for (size_t i = 0; i < count; ++i)
    if (!layouts.results[i].empty())
      graph.results[i] = transposed(graph, graph.results[i], major_to_minor(layouts.results[i]));
  return graph;
}

}  // namespace trine::compile
