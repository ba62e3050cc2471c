// schur: t and z of each matrix a = z t z^H (ops/linalg/schur_form.h says what t is); NaN where the iteration does not
// end. C1: the matrices are square.
#include "ops/linalg/schur_form.h"

#include <limits>

namespace trine::ops {

namespace {

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> t(e.in[0]), z(e.out[1].dims);
  for (int64_t i = 0; i < t.count; ++i) {
    if (schur_form(t.matrix(i), z.matrix(i))) continue;
    for (W* data : {t.matrix(i).data, z.matrix(i).data})
      std::fill_n(data, t.rows * t.rows, W(std::numeric_limits<double>::quiet_NaN()));
  }
  store_wide(t.values, e.out[0]);
  store_wide(z.values, e.out[1]);
}

}  // namespace

extern const Op op_schur{.name = "schur",
                         .kind = OpKind::other,
                         .arity = 1,
                         .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
                           TRY(check_square(call.inputs[0]));
                           const ir::Type t = ir::tensor_type(call.inputs[0].dtype, call.inputs[0].dims);
                           return std::vector<ir::Type>{t, t};
                         },
                         .eval = [](const Eval& e) -> Result<void> {
                           dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                           return {};
                         },
                         .cut = {.whole_last = 2}};

}  // namespace trine::ops
