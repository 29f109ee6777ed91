// The account of work, and the errors of constructions, as Python has them.
#pragma once

#include "bind_types.h"
#include "work.h"

namespace tractile {

inline void bind_work(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& given, void*) {
    auto raise = [](const char* what, i64 limit) {
      nb::object kind = nb::module_::import_("tractile.errors").attr("TooManyStates");
      PyErr_SetObject(kind.ptr(), kind(what, nb::arg("limit") = limit).ptr());
    };
    try {
      std::rethrow_exception(given);
    } catch (const TooManyStates& error) {
      raise(error.what(), error.limit);
    } catch (const std::bad_alloc&) {
      raise("the automaton does not fit into memory", STATES);
    }
  });
  nb::class_<Account>(m, "Account", "Units of work: those that may be taken, those taken, and those of no cached result. One thread uses it at a time.")
      .def(nb::init<double>(), nb::arg("limit"))
      .def_rw("limit", &Account::limit)
      .def_rw("spent", &Account::spent)
      .def_rw("own", &Account::own);
  m.def("account", [] { return account; }, nb::rv_policy::reference, "The account of work in force on this thread, or None.");
  m.def("enter", [](Account* given) { return std::exchange(account, given); }, nb::arg("given").none(), nb::rv_policy::reference, "Put an account in force; return that before.");
  m.def("spend", &spend, nb::arg("units"), "Count units of work.");
  m.def("watch", [](nb::callable check) {
    static std::atomic<PyObject*> watcher{nullptr};  // none is destroyed: another thread may be at it
    watcher = check.release().ptr();
    look = [] {
      nb::gil_scoped_acquire hold;
      nb::handle(watcher.load())();
    };
  }, nb::arg("check"), "Let a function be called now and then in long work.");
}

}  // namespace tractile
