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

// The numbers of an array, or of what numpy makes one of.
template <class T>
std::vector<T> given(nb::handle some) {
  nb::ndarray<const T, nb::c_contig, nb::device::cpu> found;
  const char* type = std::is_same_v<T, i64> ? "int64" : std::is_same_v<T, i32> ? "int32" : "uint8";
  if (!nb::try_cast(some, found, false)) found = nb::cast<decltype(found)>(nb::module_::import_("numpy").attr("ascontiguousarray")(some, type));
  return {found.data(), found.data() + found.size()};
}

// A new array of numpy, of numbers or of rows of them.
template <class T>
nb::object array(std::vector<T> some) {
  auto* data = new std::vector<T>(std::move(some));
  nb::capsule owner(data, [](void* given) noexcept { delete static_cast<std::vector<T>*>(given); });
  const size_t shape[] = {data->size(), sizeof(T) / sizeof(i64)};
  return nb::cast(nb::ndarray<nb::numpy, i64>(data->data(), std::is_same_v<T, i64> ? 1 : 2, shape, owner));
}

inline nb::object numbers(const std::vector<i32>& some) { return array(std::vector<i64>(some.begin(), some.end())); }

// What an object has, as an array that is not written to.
template <class Seen, class T>
nb::object view(nb::handle owner, const std::vector<T>& some) {
  const size_t shape[] = {some.size(), sizeof(T) / sizeof(Seen)};
  return nb::cast(nb::ndarray<nb::numpy, const Seen>(reinterpret_cast<const Seen*>(some.data()), shape[1] > 1 ? 2 : 1, shape, owner));
}

// A tuple that has at least so many items.
inline nb::tuple items(nb::handle some, size_t size) {
  auto found = nb::cast<nb::tuple>(some);
  if (found.size() < size) throw nb::index_error("a tuple has too few items");
  return found;
}

}  // namespace tractile
