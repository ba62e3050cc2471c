// Data files compiled into the binary by cmake/embed.cmake; each set is a function the build defines.
#pragma once

#include <string_view>

namespace trine {

struct EmbeddedFile {
  std::string_view name;  // file name without folder
  std::string_view text;
};

}  // namespace trine
