// Packed forms of a tensor that never changes, kept beside its bytes from one run to the next.
// A form is made when it is asked for a second time: what is multiplied once is packed on the way. All forms of the
// process share one bound; past it a form is not kept, and the multiply packs again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "host/pack.h"

namespace trine::host {

class Kept {
 public:
  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept();

  // B of a multiply, packed; null the first time, past the bound, and for what no kernel packs.
  std::shared_ptr<const PackedMatrix> packed(const Matrix& b, int64_t offset, int64_t k, int64_t n);

  static int64_t bytes_in_use();
  static void set_bytes_max(int64_t bytes);  // of the process; a quarter of this machine's memory where not set

 private:
  struct Form {
    int64_t offset = 0, k = 0, n = 0, row_stride = 0, col_stride = 0;
    std::shared_ptr<const PackedMatrix> packed = {};

    bool is_for(const Matrix& b, int64_t at, int64_t depth, int64_t cols) const {
      return offset == at && k == depth && n == cols && row_stride == b.row_stride && col_stride == b.col_stride;
    }
  };

  std::mutex mutex_;
  std::vector<Form> forms_;
};

}  // namespace trine::host
