// Packed forms of a tensor that never changes, kept beside its bytes from one run to the next.
// A form is made when it is asked for a second time: what is multiplied once is packed on the way. All forms of the
// process share one bound; past it a form is not kept, and the multiply packs again. Nor is one that holds values which
// another in use holds already, like a weight's and its transpose's in a step of training: a tensor takes its own bytes
// and about as many again.
// Where runs read a large tensor by a packed form alone, its own bytes go back to the system; whoever needs them later
// has them written again, once: after that they stay. Invariant: in a use that counts, the bytes are there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "host/gemm/pack.h"

namespace trine::host {

class PackedForms {
 public:
  PackedForms() = default;
  PackedForms(std::byte* own, size_t bytes) : own_(own), bytes_(bytes) {}  // memory from scratch.h, which may go
  PackedForms(const PackedForms&) = delete;
  PackedForms& operator=(const PackedForms&) = delete;
  ~PackedForms();

  // B of a multiply, packed; null the first time, past the bounds, and for what no kernel packs.
  std::shared_ptr<const PackedMatrix> packed(const Matrix& b, int64_t offset, int64_t k, int64_t n);

  // A use of the tensor's own bytes. One that reads packed forms alone does not count while the bytes are gone; what
  // begin_use() says is given to end_use(). After a use by packed forms alone the bytes may go.
  bool begin_use(bool by_forms_alone);
  void end_use(bool counts, bool by_forms_alone);
  void pin();  // the bytes stay from now on

  static int64_t bytes_in_use();
  static void set_bytes_max(int64_t bytes);  // of the process; a quarter of this machine's memory where not set

 private:
  struct Form {
    int64_t offset = 0, k = 0, n = 0, row_stride = 0, col_stride = 0;
    uint64_t asked = 0;  // the tensor's how manieth ask was for it, the last time
    std::shared_ptr<const PackedMatrix> packed = {};

    // Where its values lie, the end exclusive; strides may be negative.
    int64_t first() const {
      return offset + std::min<int64_t>((k - 1) * row_stride, 0) + std::min<int64_t>((n - 1) * col_stride, 0);
    }
    int64_t end() const {
      return offset + std::max<int64_t>((k - 1) * row_stride, 0) + std::max<int64_t>((n - 1) * col_stride, 0) + 1;
    }
    bool is_for(const Matrix& b, int64_t at, int64_t depth, int64_t cols) const {
      return offset == at && k == depth && n == cols && row_stride == b.row_stride && col_stride == b.col_stride;
    }
  };

  // Room for a form besides those packed, made by giving up others that nobody asked for since then; with mutex_ held,
  // like all that follow.
  bool make_room(const Form& form, uint64_t since);
  bool has_room(const Form& form) const;
  const Form* whole() const;  // a form of all values, or null
  void restore();
  void drop();

  std::byte* const own_ = nullptr;
  const size_t bytes_ = 0;
  std::mutex mutex_;
  std::vector<Form> forms_;
  uint64_t asks_ = 0;
  int64_t uses_ = 0;
  bool is_gone_ = false, is_pinned_ = false;
};

}  // namespace trine::host
