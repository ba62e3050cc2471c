# The Python module trine._core: every bind_<x>.cpp in src/api/python defines bind_<x>(module);
# the table of them is generated from the file list, so a new file needs no other edit.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

file(GLOB binds CONFIGURE_DEPENDS src/api/python/bind_*.cpp)
set(table "// Generated from the list of bind_*.cpp files.\n#include <nanobind/nanobind.h>\n\n")
set(calls "")
foreach(bind ${binds})
  get_filename_component(name ${bind} NAME_WE)
  string(APPEND table "void ${name}(nanobind::module_& m);\n")
  string(APPEND calls "  ${name}(m);\n")
endforeach()
string(APPEND table "\nvoid bind_all([[maybe_unused]] nanobind::module_& m) {\n${calls}}\n")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/python/bind_all.cpp CONTENT "${table}" @ONLY)

nanobind_add_module(_core NB_STATIC NOMINSIZE src/api/python/module.cpp src/api/python/arrays.cpp src/api/python/serve_read.cpp ${binds} ${CMAKE_BINARY_DIR}/python/bind_all.cpp)
# The command is a program of its own: what Python calls lies below it, and is built while tools/ still compiles.
set(python_folders ${trine_folders})
list(REMOVE_ITEM python_folders trine_tools)
target_link_libraries(_core PRIVATE ${python_folders})
target_compile_definitions(_core PRIVATE TRINE_VERSION="${PROJECT_VERSION}")
trine_precompile(_core python)

# The PJRT plugin: a library of its own that shows one symbol.
add_library(trine_pjrt MODULE src/api/pjrt/plugin.cpp)
target_link_libraries(trine_pjrt PRIVATE ${python_folders})
target_link_options(trine_pjrt PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(trine_pjrt PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden)

# PyTorch's device, where torch is installed: built against its headers, and good for that version alone.
set(modules _core trine_pjrt)
execute_process(COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                OUTPUT_VARIABLE torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE no_torch)
execute_process(COMMAND ${Python_EXECUTABLE} -c "import importlib.metadata as m; print(m.version('torch').partition('+')[0])"
                OUTPUT_VARIABLE torch_version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set_source_files_properties(src/api/python/module.cpp PROPERTIES COMPILE_DEFINITIONS "TRINE_TORCH_VERSION=\"${torch_version}\"")
if(NOT no_torch)
  file(GLOB_RECURSE torch_sources CONFIGURE_DEPENDS src/api/torch/*.cpp)
  Python_add_library(_torch MODULE WITH_SOABI ${torch_sources})
  target_include_directories(_torch SYSTEM PRIVATE ${torch_folder}/include ${torch_folder}/include/torch/csrc/api/include ${torch_folder}/include/kineto)
  target_link_directories(_torch PRIVATE ${torch_folder}/lib)
  target_link_libraries(_torch PRIVATE ${python_folders} torch torch_cpu torch_python c10)
  target_link_options(_torch PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(_torch PROPERTIES CXX_VISIBILITY_PRESET hidden BUILD_RPATH ${torch_folder}/lib)
  trine_precompile(_torch torch)
  list(APPEND modules _torch)
endif()

if(SKBUILD)
  install(TARGETS ${modules} DESTINATION trine)
else()
  # Beside the package's sources, where an editable install or PYTHONPATH=python finds it.
  set_target_properties(${modules} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/python/trine)
endif()
