// Which packed forms of a weight are kept, by what is asked for in turn.
#include "host/gemm/packed.h"

#include <string>
#include <vector>

#include "base/text.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::host;

namespace {

constexpr int64_t kRows = 64, kColumns = 96;

// A weight of kRows by kColumns, seen as B of a multiply.
struct View {
  int64_t offset, k, n, row_stride, col_stride;
};
const View kPlain{0, kRows, kColumns, kColumns, 1}, kTransposed{0, kColumns, kRows, 1, kColumns},
    kReversed{kRows * kColumns - 1, kRows, kColumns, -kColumns, -1}, kLeft{0, kRows, 32, kColumns, 1},
    kMiddle{32, kRows, 32, kColumns, 1}, kRight{64, kRows, 32, kColumns, 1};

View view_of(char name) {
  switch (name) {
    case 'P':
      return kPlain;
    case 'T':
      return kTransposed;
    case 'R':
      return kReversed;
    case 'l':
      return kLeft;
    case 'm':
      return kMiddle;
    default:
      return kRight;
  }
}

// For each ask: '+' where a packed form answers, '.' where the multiply has to pack.
std::string answers(PackedForms& packed_forms, std::string_view asks, const std::vector<float>& values) {
  std::string out;
  for (char name : asks) {
    const View v = view_of(name);
    const Matrix b{values.data() + v.offset, Dtype::f32, v.row_stride, v.col_stride};
    out += packed_forms.packed(b, v.offset, v.k, v.n) ? '+' : '.';
  }
  return out;
}

}  // namespace

TEST_CASE("forms of a weight are kept so that each value is packed once") {
  struct Row {
    const char *what, *asks, *answers;
    int64_t forms;  // of kRows * kColumns values, in thirds
  };
  const Row rows[] = {
      {"once is not kept", "P", ".", 0},
      {"the second time it is", "PPP", ".++", 3},
      {"parts are kept side by side", "lmrlmrlmr", "...++++++", 3},
      {"a transpose in turns is not", "PTPTPTPT", "..+.+.+.", 3},
      {"nor is it backwards", "PRPRPR", "..+.+.", 3},
      {"nor the whole beside its parts", "lPlPlP", "..+.+.", 1},
      {"the form that is asked for alone takes the place", "PPTTTPTPT", ".+.++.+.+", 3},
  };
  const std::vector<float> values(kRows * kColumns, 1.0f);
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const int64_t before = PackedForms::bytes_in_use();
    {
      PackedForms packed_forms;
      CHECK(answers(packed_forms, row.asks, values) == row.answers);
      CHECK(PackedForms::bytes_in_use() - before == row.forms * int64_t(packed_bytes(Dtype::f32, kRows, kColumns / 3)));
    }
    CHECK(PackedForms::bytes_in_use() == before);
  }
}
