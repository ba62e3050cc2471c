// The table of all rows, and the one for a node.
#include <algorithm>

#include "front/onnx/call.h"

namespace trine::front::onnx {

std::vector<const Row*> all_rows() {
  std::vector<const Row*> out;
  for (auto rows : {rows_elementwise, rows_activation, rows_shape, rows_fill, rows_index, rows_reduce, rows_matmul,
                    rows_conv, rows_pool, rows_norm, rows_resize, rows_quantize, rows_control, rows_recurrent,
                    rows_list, rows_loss, rows_signal, rows_sample})
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
