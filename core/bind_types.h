// How values cross to Python and back: strings of the core are bytes, its arrays are numpy's.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "common.h"

namespace nanobind::detail {

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("bytes"))
  bool from_python(handle given, uint32_t, cleanup_list*) noexcept {
    if (!PyBytes_Check(given.ptr())) return false;
    value.assign(PyBytes_AsString(given.ptr()), size_t(PyBytes_Size(given.ptr())));
    return true;
  }
  static handle from_cpp(const std::string& given, rv_policy, cleanup_list*) noexcept { return PyBytes_FromStringAndSize(given.data(), Py_ssize_t(given.size())); }
};

}  // namespace nanobind::detail

namespace tractile {

namespace nb = nanobind;

template <class T>
using Given = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;

// Numbers one after another: an array of numpy as it is where it is of this type, otherwise a copy as one.
template <class T>
Given<T> given(nb::handle some) {
  Given<T> found;
  if (nb::try_cast(some, found, false)) return found;
  const char* type = std::is_same_v<T, i64> ? "int64" : std::is_same_v<T, i32> ? "int32" : "uint8";
  return nb::cast<Given<T>>(nb::module_::import_("numpy").attr("ascontiguousarray")(some, type));
}

// A new array of numpy.
inline nb::object array(std::vector<i64> some, std::initializer_list<size_t> shape) {
  auto* data = new std::vector<i64>(std::move(some));
  nb::capsule owner(data, [](void* given) noexcept { delete static_cast<std::vector<i64>*>(given); });
  return nb::cast(nb::ndarray<nb::numpy, i64>(data->data(), shape, owner));
}

inline nb::object numbers(const std::vector<i32>& some) { return array({some.begin(), some.end()}, {some.size()}); }

// What an object has, as an array that is not written to.
template <class T>
nb::object view(nb::handle owner, const void* data, std::initializer_list<size_t> shape) {
  return nb::cast(nb::ndarray<nb::numpy, const T>(static_cast<const T*>(data), shape, owner));
}

// A tuple that has at least so many items.
inline nb::tuple items(nb::handle some, size_t size) {
  auto found = nb::cast<nb::tuple>(some);
  if (found.size() < size) throw nb::index_error("a tuple has too few items");
  return found;
}

}  // namespace tractile
