// or_raise: a Result's value, or its error as a Python exception with the same text.
#pragma once

#include <nanobind/nanobind.h>

#include <type_traits>
#include <utility>

#include "base/result.h"
#include "base/stop.h"

namespace trine::api {

inline PyObject* exception_of(Code code) {
  switch (code) {
    case Code::out_of_memory:
      return PyExc_MemoryError;
    case Code::out_of_range:
      return PyExc_IndexError;
    case Code::io:
      return PyExc_OSError;
    case Code::cancelled:
      return PyExc_KeyboardInterrupt;
    case Code::internal:
      return PyExc_RuntimeError;
    case Code::invalid:
    case Code::not_found:
    case Code::unsupported:
      break;
  }
  return PyExc_ValueError;
}

// A call that may be long: without Python's lock, and Ctrl-C stops it.
struct Unlocked {
  nanobind::gil_scoped_release released;
  Work work;
};

template <class T>
T or_raise(Result<T> result) {
  if (!result) {
    PyErr_SetString(exception_of(result.error().code), result.error().text().c_str());
    throw nanobind::python_error();
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace trine::api
