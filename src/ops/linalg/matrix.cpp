// Checks shared by the ops of linear algebra.
#include "ops/linalg/matrix.h"

namespace trine::ops {

Result<void> check_matrices(const ir::Type& x) {
  if (x.rank() < 2 || !(is_floating(x.dtype) || is_complex(x.dtype)))
    return fail(Code::invalid, cat(ir::text(x), " holds no matrices of floats or complex numbers"));
  return {};
}

Result<void> check_square(const ir::Type& x) {
  TRY(check_matrices(x));
  if (x.dims[x.dims.size() - 1] != x.dims[x.dims.size() - 2])
    return fail(Code::invalid, cat("the matrices of ", ir::text(x), " are not square"));
  return {};
}

}  // namespace trine::ops
