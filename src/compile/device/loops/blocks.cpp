// How dims are cut; see blocks.h.
#include "compile/device/loops/blocks.h"

namespace trine::compile::device {

std::vector<Block> cut(const Dims& dims, int64_t limit) {
  if (element_count(dims) == 0) return {};
  size_t at = dims.size();
  int64_t inner = 1;
  while (at > 0 && inner * dims[at - 1] <= limit) inner *= dims[--at];
  Block whole{Dims(dims.size(), 0), dims};
  if (at == 0) return {whole};
  const int64_t run = std::max<int64_t>(1, limit / inner);
  int64_t outer = 1;
  for (size_t d = 0; d + 1 < at; ++d) outer *= dims[d];
  std::vector<Block> out;
  for (int64_t i = 0; i < outer; ++i) {
    Block b = whole;
    int64_t rest = i;
    for (size_t d = at - 1; d-- > 0; rest /= dims[d]) b.begin[d] = rest % dims[d], b.count[d] = 1;
    for (int64_t from = 0; from < dims[at - 1]; from += run) {
      b.begin[at - 1] = from;
      b.count[at - 1] = std::min(run, dims[at - 1] - from);
      out.push_back(b);
    }
  }
  return out;
}

}  // namespace trine::compile::device
