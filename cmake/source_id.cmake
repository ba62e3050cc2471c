# Writes OUT, a C++ file that defines trine::compile::compiler_id(): a hash of the FILES (a list joined by '|') that decide
# what the compiler makes. Run by the build: cmake -DOUT=… -DROOT=… -DFILES=… -P source_id.cmake
string(REPLACE "|" ";" files "${FILES}")
list(SORT files)
set(all "")
foreach(path IN LISTS files)
  file(SHA256 "${path}" hash)
  file(RELATIVE_PATH name "${ROOT}" "${path}")
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 id "${all}")
file(WRITE "${OUT}" "// Written by cmake/source_id.cmake.
#include <string_view>

namespace trine::compile {

std::string_view compiler_id();
std::string_view compiler_id() { return \"${id}\"; }

}  // namespace trine::compile
")
