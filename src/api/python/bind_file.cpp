// Files by names that models contain, for Python: base/file.h's rule, as a descriptor that the caller closes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include "api/python/raise.h"
#include "base/file.h"

namespace nb = nanobind;
using namespace trine;

namespace {

int open_beneath(const std::string& folder, const std::string& name, const std::string& source) {
  const OpenFile file = api::or_raise(OpenFile::open_beneath(folder, name, source));
  return ::dup(file.fd());
}

}  // namespace

void bind_file(nb::module_& m) {
  m.def("open_beneath", open_beneath, nb::arg("folder"), nb::arg("name"), nb::arg("source") = "");
}
