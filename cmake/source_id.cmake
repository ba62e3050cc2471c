# What decides a program that the compile cache keeps: `deciding_globs`, the sources, by folder, which CMakeLists.txt takes
# from here. As a script it writes OUT, a C++ file that defines trine::compile::compiler_id(), a hash of them all:
#   cmake -DOUT=… -DROOT=… [-DBUILD=compiler and flags] -P source_id.cmake
# Left out is what only runs or shows a program: src/host, src/run but for the timer that the compiler asks, src/serve,
# src/tools, and the faces in folders of src/api. A chip's numbers are in every key by themselves.
set(deciding_globs "")
foreach(folder base arch ir comm ops front compile sim run/drivers/timed api)
  list(APPEND deciding_globs src/${folder}/*.cpp src/${folder}/*.h)
endforeach()
set(deciding_not "/src/api/[^/]+/")

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  list(TRANSFORM deciding_globs PREPEND "${ROOT}/")
  file(GLOB_RECURSE files RELATIVE "${ROOT}" ${deciding_globs})
  list(TRANSFORM files PREPEND "/")
  list(FILTER files EXCLUDE REGEX "${deciding_not}")
  list(SORT files)
  set(all "${BUILD}\n")
  foreach(name IN LISTS files)
    file(SHA256 "${ROOT}${name}" hash)
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
endif()
