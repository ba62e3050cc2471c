// What a pass left, in words; see pass.h.
#include "compile/pass/pass.h"

#include "base/text.h"

namespace trine::compile {

std::string PassReport::summary() const {
  std::string out;
  for (const PassSize& size : sizes)
    append_text(out, cat(out.empty() ? "" : ", ", with_commas(size.count), " ", size.unit));
  return out;
}

Error refused_after(std::string_view pass, const Error& error) {
  return fail(Code::internal, cat("after pass ", pass, ": ", error.message), error.where);
}

}  // namespace trine::compile
