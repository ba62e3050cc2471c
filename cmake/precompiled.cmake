# Precompiled headers: what most files of a group include, parsed once instead of some hundred times. Never a substitute
# for an include: each file says what it uses. `make check` proves it of headers, clang's builds without them (sanitize, tsan) of all.
option(TRINE_PRECOMPILE "parse what most files include once (g++, and clang for fuzz targets)" ON)

set(trine_std_headers <algorithm> <array> <bit> <charconv> <cmath> <cstddef> <cstdint> <cstdio> <cstdlib> <cstring>
    <functional> <limits> <map> <memory> <numeric> <optional> <set> <span> <string> <string_view> <type_traits>
    <unordered_map> <utility> <variant> <vector>)
# In brackets, so that the generated file has no absolute path and clones share ccache's results.
set(trine_machine_headers ${trine_std_headers} <base/format/json.h> <base/number/number.h> <base/result.h> <base/text.h> <arch/chips/chip.h>
    <arch/program/program.h> <arch/row.h>)
set(trine_graph_headers ${trine_machine_headers} <complex> <deque> <base/tensor.h> <ir/graph.h> <ops/op.h>)
set(trine_python_headers <nanobind/nanobind.h> <nanobind/ndarray.h> <nanobind/stl/string.h> <nanobind/stl/vector.h>
    ${trine_machine_headers})
set(trine_torch_headers <api/torch/aten.h> <api/torch/backend.h>)
set(trine_tests_headers ${trine_graph_headers} <tests/testing.h>)

# trine_precompile(target group): gives the target the headers of trine_<group>_headers. Targets of a group share one
# precompiled file, so they must have the same code options; the group's first target makes it.
function(trine_precompile target group)
  set(gnu FALSE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(gnu TRUE)
  endif()
  if(NOT TRINE_PRECOMPILE OR NOT (gnu OR TRINE_FUZZ))
    return()
  endif()
  get_property(owner GLOBAL PROPERTY trine_precompiled_${group})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${trine_${group}_headers})
    set_property(GLOBAL PROPERTY trine_precompiled_${group} ${target})
  endif()
  if(NOT gnu)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")  # ccache needs it
    return()
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache needs it
  # g++ 12 forgets that a precompiled header is the system's, and warns of std::string's insides where strings are joined.
  if(group STREQUAL "tests" OR target STREQUAL "trine_tools")
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overread -Wno-maybe-uninitialized)
  endif()
endfunction()

# The same warnings in two files of folders that keep them.
set_source_files_properties(src/compile/stream/memory/allocate.cpp src/compile/pass/run_pass.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# Members with initializers of their own are no uninitialized ones (GCC bug 105562).
set_source_files_properties(src/compile/pass/run_pass.cpp src/compile/pass/graphs.cpp PROPERTIES COMPILE_OPTIONS -Wno-maybe-uninitialized)
