// The table of all rows, those that are an op of ours under another name, and the one for a node.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "front/onnx/call.h"

namespace trine::front::onnx {

namespace {

Lowered op_itself(Call& c) {
  return one(c.in.size() == 1 ? c.b.unary(c.op, c.in[0]) : c.b.binary(c.op, c.in[0], c.in[1]));
}

// From the ops' columns: "And:7 BitwiseAnd:18".
std::vector<Row> made_of_ops() {
  std::vector<Row> out;
  for (const ops::Op* op : ops::all_ops()) {
    for (std::string_view word : split(op->abroad.onnx, ' ')) {
      if (word.empty()) continue;
      const size_t colon = word.find(':');
      Row row{.name = word.substr(0, colon), .inputs_min = op->arity, .inputs_max = op->arity, .lower = op_itself};
      row.op = ir::op_named(op->name);
      const auto read = std::from_chars(word.data() + colon + 1, word.data() + word.size(), row.since);
      CHECK(colon != word.npos && read.ec == std::errc{} && (op->arity == 1 || op->arity == 2),
            "an ONNX column is name:opset, of an op of one or two inputs");
      out.push_back(row);
    }
  }
  return out;
}

}  // namespace

std::span<const Row> rows_of_ops() {
  static const std::vector<Row> rows = made_of_ops();
  return rows;
}

std::vector<const Row*> all_rows() {
  std::vector<const Row*> out;
  for (auto rows : {rows_of_ops, rows_elementwise, rows_activation, rows_shape, rows_fill, rows_index, rows_reduce,
                    rows_matmul, rows_conv, rows_pool, rows_norm, rows_resize, rows_quantize, rows_control,
                    rows_recurrent, rows_list, rows_loss, rows_signal, rows_sample})
    for (const Row& row : rows()) out.push_back(&row);
  std::sort(out.begin(), out.end(),
            [](const Row* a, const Row* b) { return a->name != b->name ? a->name < b->name : a->since < b->since; });
  return out;
}

const Row* find_row(std::string_view domain, std::string_view op, int64_t opset) {
  static const std::vector<const Row*> kRows = all_rows();
  const Row* found = nullptr;
  auto at = std::lower_bound(kRows.begin(), kRows.end(), op,
                             [](const Row* row, std::string_view n) { return row->name < n; });
  for (; at != kRows.end() && (*at)->name == op; ++at)
    if ((*at)->domain == domain && (*at)->since <= std::max<int64_t>(opset, 1)) found = *at;
  return found;
}

}  // namespace trine::front::onnx
