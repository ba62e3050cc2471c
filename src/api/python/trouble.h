// What a user must see and no error is: said on stderr by trine.progress.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace trine::api {

// Why the compile cache could not be used; with the GIL held.
inline void tell_trouble(const std::string& why) {
  nanobind::module_::import_("trine.progress").attr("cache_trouble")(why);
}

}  // namespace trine::api
