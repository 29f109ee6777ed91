// The account of work, and the errors of constructions, as Python has them.
#pragma once

#include <pybind11/pybind11.h>

#include "work.h"

namespace tractile {

namespace py = pybind11;

inline void bind_work(py::module_& m) {
  py::register_local_exception_translator([](std::exception_ptr given) {
    auto raise = [](const char* what, i64 limit) {
      py::object kind = py::module_::import("tractile.errors").attr("TooManyStates");
      PyErr_SetObject(kind.ptr(), kind(what, py::arg("limit") = limit).ptr());
    };
    try {
      if (given) std::rethrow_exception(given);
    } catch (const TooManyStates& error) {
      raise(error.what(), error.limit);
    } catch (const std::bad_alloc&) {
      raise("the automaton does not fit into memory", STATES);
    }
  });
  py::class_<Account>(m, "Account", "Units of work: those that may be taken, those taken, and those of no cached result.")
      .def(py::init<double>(), py::arg("limit"))
      .def_readwrite("limit", &Account::limit)
      .def_readwrite("spent", &Account::spent)
      .def_readwrite("own", &Account::own);
  m.def("account", [] { return account; }, py::return_value_policy::reference, "The account in force.");
  m.def("enter", [](Account* given) { return std::exchange(account, given); }, py::return_value_policy::reference, "Put an account in force; return that before.");
  m.def("spend", &spend, "Count units of work.");
  m.def(
      "watch",
      [](py::function check) {
        static py::function* watcher = nullptr;  // never destroyed: the interpreter may be gone
        delete std::exchange(watcher, new py::function(std::move(check)));
        look = [] {
          py::gil_scoped_acquire hold;
          (*watcher)();
        };
      },
      "Let a function be called now and then in long work.");
}

}  // namespace tractile
