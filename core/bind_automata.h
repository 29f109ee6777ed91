// Automata, tables and names as objects of Python. Nothing of them passes through lists or arrays but where it is asked for.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "bind_work.h"
#include "decimals.h"
#include "repeats.h"

namespace tractile::automata {

namespace py = pybind11;

template <class T>
using Given = py::array_t<T, py::array::c_style | py::array::forcecast>;

// The interpreter is let go of while a large automaton is worked on; for a small one that would take longer than the work.
struct Unlocked {
  std::optional<py::gil_scoped_release> release;
  explicit Unlocked(size_t moves) {
    if (moves > 2000) release.emplace();
  }
  explicit Unlocked(const Handle& nfa) : Unlocked(nfa->moves.size()) {}
};

// What an object keeps under a name once it is asked for.
template <class F>
py::object kept(py::object self, const char* name, F&& make) {
  py::dict known = self.attr("__dict__");
  if (!known.contains(name)) known[name] = make();
  return known[name];
}

inline py::array_t<i64> numbers(const std::vector<i32>& some) {
  py::array_t<i64> found(py::ssize_t(some.size()));
  std::copy(some.begin(), some.end(), found.mutable_data());
  return found;
}

template <class T>
py::array view(py::object owner, const std::vector<T>& some, std::vector<py::ssize_t> shape, py::dtype kind) {
  py::array found(kind, std::move(shape), some.data(), owner);
  found.attr("setflags")(py::arg("write") = false);
  return found;
}

inline py::list moves_of(Nfa::Row row) {
  py::list found(row.size());
  for (size_t i = 0; i < row.size(); ++i) found[i] = py::make_tuple(row.first[i].low, row.first[i].high, row.first[i].to);
  return found;
}

inline py::list rows_of(const Nfa& nfa) {
  py::list found(nfa.states());
  for (i32 s = 0; s < nfa.states(); ++s) found[s] = moves_of(nfa.row(s));
  return found;
}

inline std::vector<i32> states_of(py::iterable some) {
  std::vector<i32> found;
  for (py::handle each : some) found.push_back(each.cast<i32>());
  return found;
}

// Refuse states that there are not.
inline void check_states(const Nfa& nfa) {
  auto none = [&](i32 state) { return state < 0 || state >= nfa.states(); };
  bool wrong = std::any_of(nfa.start.begin(), nfa.start.end(), none) || std::any_of(nfa.accept.begin(), nfa.accept.end(), none);
  for (const Move& move : nfa.moves) wrong = wrong || none(move.to) || move.high < move.low;
  for (auto [from, to] : nfa.skips) wrong = wrong || none(from) || none(to);
  if (wrong) throw py::value_error("an automaton names a state that it does not have, or a range of no bytes");
}

// The automaton of the moves of each state: (lowest byte, highest byte, target), in any order.
inline Handle of_rows(py::iterable rows, py::iterable start, py::iterable accept, py::iterable skips, bool minimal) {
  auto made = std::make_shared<Nfa>();
  for (py::handle row : rows) {
    const size_t first = made->moves.size();
    for (py::handle each : row) {
      auto move = py::reinterpret_borrow<py::tuple>(each);
      made->moves.push_back({move[0].cast<u8>(), move[1].cast<u8>(), move[2].cast<i32>()});
    }
    merge(made->moves, first);
    made->end_row();
  }
  for (py::handle each : skips) made->skips.push_back(each.cast<Skip>());
  made->start = states_of(start);
  made->accept = states_of(accept);
  made->trimmed = made->minimal = minimal;
  check_states(*made);
  return made;
}

inline Handle of_arrays(i32 states, Given<i64> edges, Given<i64> skips, Given<i64> start, Given<i64> accept, bool minimal = false) {
  std::vector<Edge> all;
  for (py::ssize_t i = 0; i + 3 < edges.size(); i += 4) {
    const i64* e = edges.data() + i;
    if (e[0] < 0 || e[0] >= states || e[3] < 0 || e[3] >= states || e[1] < 0 || e[1] > e[2] || e[2] > 255) throw py::value_error("an edge leads to no state, or reads no byte");
    all.push_back({i32(e[0]), int(e[1]), int(e[2]), i32(e[3])});
  }
  Handle made = of_edges(states, all);
  for (py::ssize_t i = 0; i + 1 < skips.size(); i += 2) made->skips.push_back({i32(skips.data()[i]), i32(skips.data()[i + 1])});
  made->start.assign(start.data(), start.data() + start.size());
  made->accept.assign(accept.data(), accept.data() + accept.size());
  made->trimmed = made->minimal = minimal;
  check_states(*made);
  return made;
}

inline py::array edges_of(const Nfa& nfa) {
  py::array_t<i64> found({py::ssize_t(nfa.moves.size()), py::ssize_t(4)});
  i64* out = found.mutable_data();
  for (i32 s = 0; s < nfa.states(); ++s)
    for (const Move& move : nfa.row(s))
      for (i64 each : {i64(s), i64(move.low), i64(move.high), i64(move.to)}) *out++ = each;
  return found;
}

// Rows (source, byte class, target), sorted: moves written out by class.
inline py::array transitions_of(const Nfa& nfa) {
  const std::vector<i32> klass = byte_classes(nfa);
  std::vector<std::array<i64, 3>> rows;
  for (i32 s = 0; s < nfa.states(); ++s) {
    const size_t first = rows.size();
    for (const Move& move : nfa.row(s)) {
      bool met[256] = {false};
      for (int byte = move.low; byte <= move.high; ++byte)
        if (!std::exchange(met[klass[size_t(byte)]], true)) rows.push_back({s, klass[size_t(byte)], move.to});
    }
    std::sort(rows.begin() + i64(first), rows.end());
  }
  py::array_t<i64> found({py::ssize_t(rows.size()), py::ssize_t(3)});
  if (!rows.empty()) std::memcpy(found.mutable_data(), rows.data(), rows.size() * sizeof(rows[0]));
  return found;
}

// An automaton as bytes: those of equal ones are equal.
inline py::bytes bytes_of(const Nfa& nfa) {
  std::string found;
  auto put = [&](const auto& some) {
    const u64 size = some.size();
    found.append(reinterpret_cast<const char*>(&size), sizeof size);
    found.append(reinterpret_cast<const char*>(some.data()), size * sizeof(some[0]));
  };
  static_assert(sizeof(Skip) == 8, "no byte of a record may be undefined");
  put(nfa.first), put(nfa.skips), put(nfa.start), put(nfa.accept);
  for (const Move& move : nfa.moves) {
    found.push_back(char(move.low)), found.push_back(char(move.high));
    found.append(reinterpret_cast<const char*>(&move.to), sizeof move.to);
  }
  return found;
}

inline bool reads(const Handle& nfa, const std::string& word) {
  Handle found = plain(nfa);
  std::vector<i32> states = found->start, next;
  std::vector<u8> seen(size_t(found->states()), 0);
  for (char c : word) {
    next.clear();
    for (i32 state : states)
      for (const Move& move : found->row(state))
        if (move.low <= u8(c) && u8(c) <= move.high && !std::exchange(seen[size_t(move.to)], 1)) next.push_back(move.to);
    for (i32 state : next) seen[size_t(state)] = 0;
    states.swap(next);
  }
  const std::vector<u8> ends = marked(found->states(), found->accept);
  return std::any_of(states.begin(), states.end(), [&](i32 state) { return ends[size_t(state)]; });
}

// Whether an automaton has words of any length: states that others lead to lead in circles.
inline bool is_endless(const Handle& nfa) {
  Handle found = plain(nfa);
  std::vector<i32> into(size_t(found->states()), 0), todo;
  for (const Move& move : found->moves) ++into[size_t(move.to)];
  for (i32 s = 0; s < found->states(); ++s)
    if (!into[size_t(s)]) todo.push_back(s);
  for (size_t i = 0; i < todo.size(); ++i)
    for (const Move& move : found->row(todo[i]))
      if (!--into[size_t(move.to)]) todo.push_back(move.to);
  return i32(todo.size()) < found->states();
}

inline void bind_automata(py::module_& m) {
  bind_work(m);
  py::class_<Nfa, Handle>(m, "Nfa", py::dynamic_attr())
      .def(py::init(&of_arrays), py::arg("num_states"), py::arg("edges"), py::arg("epsilons"), py::arg("start"), py::arg("accept"),
           py::kw_only(), py::arg("minimal") = false)
      .def_property_readonly("num_states", &Nfa::states)
      .def_property_readonly("num_moves", [](const Nfa& nfa) { return nfa.moves.size(); })
      .def_readonly("trimmed", &Nfa::trimmed)
      .def_readonly("minimal", &Nfa::minimal)
      .def_property_readonly("plain", [](const Handle& nfa) { return plain(nfa); })
      .def_property_readonly("start", [](const Nfa& nfa) { return numbers(nfa.start); })
      .def_property_readonly("accept", [](const Nfa& nfa) { return numbers(nfa.accept); })
      .def_property_readonly("skips", [](const Nfa& nfa) { return nfa.skips; })
      .def_property_readonly("rows", [](py::object self) { return kept(self, "_rows", [&] { return rows_of(self.cast<const Nfa&>()); }); })
      .def_property_readonly("edges", [](py::object self) { return kept(self, "_edges", [&] { return edges_of(self.cast<const Nfa&>()); }); })
      .def_property_readonly("byte_class", [](const Nfa& nfa) { return numbers(byte_classes(nfa)); })
      .def_property_readonly("transitions", &transitions_of)
      .def_property_readonly("is_deterministic", &Nfa::is_deterministic)
      .def_property_readonly("is_empty", [](const Handle& nfa) { return plain(nfa)->states() == 0; })
      .def_property_readonly("is_endless", &is_endless)
      .def("moves", [](const Nfa& nfa, i32 state) {
             if (state < 0 || state >= nfa.states()) throw py::index_error();
             return moves_of(nfa.row(state));
           })
      .def("after", [](const Nfa& nfa, i32 state, u8 byte) {
             if (state < 0 || state >= nfa.states()) throw py::index_error();
             return nfa.after(state, byte);
           })
      .def("run", [](const Nfa& nfa, i32 state, const std::string& word) {
             if (state >= nfa.states()) throw py::index_error();
             for (size_t i = 0; i < word.size() && state >= 0; ++i) state = nfa.after(state, u8(word[i]));
             return state;
           })
      .def("accepts", &reads)
      .def("shortest", [](const Handle& nfa) -> py::object {
             std::string word;
             return shortest(nfa, word) ? py::object(py::bytes(word)) : py::none();
           })
      .def("between", [](const Nfa& nfa, py::object start, py::object accept) {
             Handle made = between(nfa, start.is_none() ? nfa.start : states_of(start), accept.is_none() ? nfa.accept : states_of(accept));
             check_states(*made);
             return made;
           }, py::arg("start") = py::none(), py::arg("accept") = py::none())
      .def("reverse", &reverse)
      .def("marks", [](const Nfa& nfa, int first) {
             bool met[256] = {false};
             for (const Move& move : nfa.moves)
               for (int byte = move.low; byte >= first && byte <= move.high; ++byte) met[byte] = true;
             std::string found;
             for (int byte = 0; byte < 256; ++byte)
               if (met[byte]) found.push_back(char(byte));
             return py::bytes(found);
           })
      .def("to_bytes", &bytes_of)
      .def(py::pickle([](const Nfa& nfa) { return py::make_tuple(nfa.states(), edges_of(nfa), nfa.skips, nfa.start, nfa.accept, nfa.trimmed, nfa.minimal); },
                      [](py::tuple given) {
                        Handle made = of_arrays(given[0].cast<i32>(), given[1].cast<Given<i64>>(), given[2].cast<Given<i64>>(), given[3].cast<Given<i64>>(), given[4].cast<Given<i64>>());
                        made->trimmed = given[5].cast<bool>(), made->minimal = given[6].cast<bool>();
                        return made;
                      }));
  m.def("of_rows", &of_rows, py::arg("rows"), py::arg("start"), py::arg("accept"), py::arg("skips") = py::tuple(), py::kw_only(),
        py::arg("minimal") = false);
  m.def("network", [](i32 nodes, py::iterable given, i32 start, i32 accept) {
    std::vector<Arc> arcs;
    for (py::handle each : given) {
      auto arc = py::reinterpret_borrow<py::tuple>(each);
      arcs.push_back({arc[0].cast<i32>(), arc[1].cast<Handle>(), arc[2].cast<i32>()});
    }
    for (const Arc& arc : arcs)
      if (std::min(arc.source, arc.target) < 0 || std::max(arc.source, arc.target) >= nodes) throw py::value_error("an arc names a state that it does not have");
    return network(nodes, arcs, start, accept);
  });
  m.def("literal", &literal);
  using End = std::optional<std::pair<std::string, bool>>;
  m.def("between_bounds", [](const End& low, const End& high, bool integer, bool point) {
    std::vector<Bound> bounds;
    if (low) bounds.emplace_back(low->first, low->second, MORE);
    if (high) bounds.emplace_back(high->first, high->second, LESS);
    return between_bounds(bounds, integer, point);
  });
  m.def("byte_ranges", [](py::args given) { return byte_ranges(given.cast<std::vector<Ranges>>()); });
  m.def("sequences", &sequences);
  m.def("erased", &erased);
  m.def("looped", &looped);
  m.def("empty", &empty);
  m.def("union", [](py::iterable given) {
    std::vector<Handle> parts;
    for (py::handle each : given) parts.push_back(each.cast<Handle>());
    return union_of(parts);
  });
  m.def("concat", &concat);
  m.def("star", &star);
  m.def("plus", &plus);
  m.def("optional", &optional);
  m.attr("MANY_STATES") = MANY_STATES;
  auto limit = py::arg("limit");
  m.def("determinize", [](const Handle& nfa, i64 most) { return Unlocked(nfa), determinize(nfa, most); }, py::arg("nfa"), limit = STATES / 5);
  m.def("resolved", [](const Handle& nfa, double units) { return Unlocked(nfa), resolved(nfa, units); }, py::arg("nfa"), py::arg("units") = SIMPLIFYING);
  m.def("intersect", [](const Handle& a, const Handle& b, i64 most) { return Unlocked(std::max(a->moves.size(), b->moves.size())), intersect(a, b, most); }, py::arg("a"),
        py::arg("b"), limit = STATES);
  m.def("complement", [](const Handle& nfa) { return Unlocked(nfa), complement(nfa); });
  m.def("difference", [](const Handle& a, const Handle& b) { return Unlocked(std::max(a->moves.size(), b->moves.size())), difference(a, b); });
  m.def("minimize", [](const Handle& nfa, i64 most) { return Unlocked(nfa), minimize(nfa, most); }, py::arg("nfa"), limit = STATES / 5);
  m.def("first_matches", [](const Handle& nfa) { return Unlocked(nfa), first_matches(nfa); });
  m.def("simplify", [](const Handle& nfa) { return Unlocked(nfa), simplify(nfa); });
  m.def("copied", [](const Handle& nfa, i64 low, i64 high) { return Unlocked(nfa), copied(nfa, low, high); });
}

}  // namespace tractile::automata
