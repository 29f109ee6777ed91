// Automata, tables and names as objects of Python. Nothing of them passes through Python's lists or arrays but where it is asked for.
#pragma once

#include "bind_work.h"
#include "decimals.h"
#include "repeats.h"

namespace tractile::automata {

// The interpreter is let go of while a large automaton is worked on; for a small one that would take longer than the work.
struct Unlocked {
  std::optional<nb::gil_scoped_release> release;
  explicit Unlocked(size_t moves) {
    if (moves > 2000) release.emplace();
  }
  explicit Unlocked(const Handle& nfa) : Unlocked(nfa->moves.size()) {}
};

// What an object has once it is asked for, kept under a name.
template <class T, class F>
auto once(const char* name, F make) {
  return [=](nb::handle self) -> nb::object {
    nb::dict known = self.attr("__dict__");
    if (!known.contains(name)) known[name] = make(nb::cast<const T&>(self));
    return known[name];
  };
}

inline nb::list moves_of(Nfa::Row row) {
  nb::list_builder found(row.size());
  for (const Move& move : row) found.put(nb::make_tuple(move.low, move.high, move.to));
  return found.commit();
}

inline nb::list rows_of(const Nfa& nfa) {
  nb::list_builder found(size_t(nfa.states()));
  for (i32 s = 0; s < nfa.states(); ++s) found.put(moves_of(nfa.row(s)));
  return found.commit();
}

template <class T>
std::vector<T> all_of(nb::iterable some) {
  std::vector<T> found;
  for (nb::handle each : some) found.push_back(nb::cast<T>(each));
  return found;
}

// Refuse states that there are not.
inline void check_states(const Nfa& nfa) {
  auto none = [&](i32 state) { return state < 0 || state >= nfa.states(); };
  bool wrong = std::any_of(nfa.start.begin(), nfa.start.end(), none) || std::any_of(nfa.accept.begin(), nfa.accept.end(), none);
  for (const Move& move : nfa.moves) wrong = wrong || none(move.to) || move.high < move.low;
  for (auto [from, to] : nfa.skips) wrong = wrong || none(from) || none(to);
  if (wrong) throw nb::value_error("an automaton names a state that it does not have, or a range of no bytes");
}

// An automaton by rows: of each state its moves (lowest byte, highest byte, target). `skips`: moves without a byte; `minimal`: it is so.
inline Handle of_rows(nb::iterable rows, nb::iterable start, nb::iterable accept, nb::iterable skips, bool minimal) {
  auto made = std::make_shared<Nfa>();
  for (nb::handle row : rows) {
    const size_t first = made->moves.size();
    for (nb::handle each : row) {
      nb::tuple move = items(each, 3);
      made->moves.push_back({nb::cast<u8>(move[0]), nb::cast<u8>(move[1]), nb::cast<i32>(move[2])});
    }
    merge(made->moves, first);
    made->end_row();
  }
  made->skips = all_of<Skip>(skips);
  made->start = all_of<i32>(start);
  made->accept = all_of<i32>(accept);
  made->trimmed = made->minimal = minimal;
  check_states(*made);
  return made;
}

// Edges between so many states, four numbers each.
template <class T>
std::vector<Edge> edges_given(nb::handle some, i32 states) {
  const std::vector<T> all = given<T>(some);
  std::vector<Edge> found;
  for (size_t i = 0; i + 3 < all.size(); i += 4) {
    const T* e = all.data() + i;
    if (e[0] < 0 || e[0] >= states || e[3] < 0 || e[3] >= states || e[1] < 0 || e[1] > e[2] || e[2] > 255) throw nb::value_error("an edge leads to no state, or reads no byte");
    found.push_back({i32(e[0]), i32(e[1]), i32(e[2]), i32(e[3])});
  }
  return found;
}

inline Handle of_arrays(i32 states, nb::object edges, nb::object skips, nb::object start, nb::object accept, bool minimal, bool trimmed) {
  Handle made = of_edges(states, edges_given<i64>(edges, states));
  const std::vector<i64> pairs = given<i64>(skips), begin = given<i64>(start), end = given<i64>(accept);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) made->skips.push_back({i32(pairs[i]), i32(pairs[i + 1])});
  made->start.assign(begin.begin(), begin.end());
  made->accept.assign(end.begin(), end.end());
  made->minimal = minimal;
  made->trimmed = minimal || trimmed;
  check_states(*made);
  return made;
}

inline nb::object edges_of(const Nfa& nfa) {
  std::vector<std::array<i64, 4>> found;
  found.reserve(nfa.moves.size());
  for (i32 s = 0; s < nfa.states(); ++s)
    for (const Move& move : nfa.row(s)) found.push_back({s, move.low, move.high, move.to});
  return array(std::move(found));
}

// Rows (source, byte class, target), sorted: moves written out by class.
inline nb::object transitions_of(const Nfa& nfa) {
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
  return array(std::move(rows));
}

// An automaton as bytes: those of equal ones are equal.
inline std::string bytes_of(const Nfa& nfa) {
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

inline void bind_automata(nb::module_& m) {
  bind_work(m);
  nb::class_<Nfa>(m, "Nfa", nb::dynamic_attr())
      .def(nb::new_(&of_arrays), nb::arg("num_states"), nb::arg("edges"), nb::arg("epsilons"), nb::arg("start"), nb::arg("accept"),
           nb::arg("minimal") = false, nb::arg("trimmed") = false)
      .def_prop_ro("num_states", &Nfa::states)
      .def_prop_ro("num_moves", [](const Nfa& nfa) { return nfa.moves.size(); })
      .def_ro("trimmed", &Nfa::trimmed)
      .def_ro("minimal", &Nfa::minimal)
      .def_prop_ro("plain", [](const Handle& nfa) { return plain(nfa); })
      .def_prop_ro("start", [](const Nfa& nfa) { return numbers(nfa.start); })
      .def_prop_ro("accept", [](const Nfa& nfa) { return numbers(nfa.accept); })
      .def_prop_ro("skips", [](const Nfa& nfa) { return nfa.skips; })
      .def_prop_ro("rows", once<Nfa>("_rows", &rows_of))
      .def_prop_ro("edges", once<Nfa>("_edges", &edges_of))
      .def_prop_ro("byte_class", [](const Nfa& nfa) { return numbers(byte_classes(nfa)); })
      .def_prop_ro("transitions", &transitions_of)
      .def_prop_ro("is_deterministic", &Nfa::is_deterministic)
      .def_prop_ro("is_empty", [](const Handle& nfa) { return plain(nfa)->states() == 0; })
      .def_prop_ro("is_endless", &is_endless)
      .def("moves", [](const Nfa& nfa, i32 state) {
             if (state < 0 || state >= nfa.states()) throw nb::index_error();
             return moves_of(nfa.row(state));
           })
      .def("after", [](const Nfa& nfa, i32 state, u8 byte) {
             if (state < 0 || state >= nfa.states()) throw nb::index_error();
             return nfa.after(state, byte);
           })
      .def("run", [](const Nfa& nfa, i32 state, const std::string& word) {
             if (state >= nfa.states()) throw nb::index_error();
             for (size_t i = 0; i < word.size() && state >= 0; ++i) state = nfa.after(state, u8(word[i]));
             return state;
           })
      .def("accepts", &reads)
      .def("shortest", &shortest)
      .def("between", [](const Nfa& nfa, std::optional<nb::iterable> start, std::optional<nb::iterable> accept) {
             Handle made = between(nfa, start ? all_of<i32>(*start) : nfa.start, accept ? all_of<i32>(*accept) : nfa.accept);
             check_states(*made);
             return made;
           }, nb::arg("start") = nb::none(), nb::arg("accept") = nb::none())
      .def("reverse", &reverse)
      .def("marks", [](const Nfa& nfa, int first) {
             std::string found;
             for (i32 byte = std::max(first, 0); byte < 256; ++byte)
               for (const Move& move : nfa.moves)
                 if (first <= move.low && move.low <= byte && byte <= move.high && (found.empty() || u8(found.back()) != byte)) found.push_back(char(byte));
             return found;
           })
      .def("to_bytes", &bytes_of)
      .def("__reduce__", [](const Nfa& nfa) {
             return nb::make_tuple(nb::type<Nfa>(), nb::make_tuple(nfa.states(), edges_of(nfa), nfa.skips, nfa.start, nfa.accept, nfa.minimal, nfa.trimmed));
           });
  m.def("of_rows", &of_rows, nb::arg("rows"), nb::arg("start"), nb::arg("accept"), nb::arg("skips") = nb::tuple(), nb::kw_only(), nb::arg("minimal") = false);
  m.def("network", [](i32 nodes, nb::iterable given, i32 start, i32 accept) {
    std::vector<Arc> arcs;
    for (nb::handle each : given) {
      nb::tuple given_arc = items(each, 3);
      const Arc& arc = arcs.emplace_back(Arc{nb::cast<i32>(given_arc[0]), nb::cast<Handle>(given_arc[1]), nb::cast<i32>(given_arc[2])});
      if (std::min(arc.source, arc.target) < 0 || std::max(arc.source, arc.target) >= nodes) throw nb::value_error("an arc names a state that it does not have");
    }
    return network(nodes, arcs, start, accept);
  });
  m.def("literal", &literal);
  using End = std::optional<std::pair<nb::str, bool>>;
  m.def("between_bounds", [](const End& low, const End& high, bool integer, bool point) {
    std::vector<Bound> bounds;
    if (low) bounds.emplace_back(low->first.c_str(), low->second, MORE);
    if (high) bounds.emplace_back(high->first.c_str(), high->second, LESS);
    return between_bounds(bounds, integer, point);
  });
  m.def("byte_ranges", [](nb::args given) { return byte_ranges(all_of<Ranges>(nb::borrow<nb::iterable>(given))); });
  m.def("sequences", [](nb::iterable given) { return sequences(all_of<std::vector<Ranges>>(given)); });
  m.def("erased", &erased);
  m.def("looped", &looped);
  m.def("empty", &empty);
  m.def("union", [](nb::iterable given) { return union_of(all_of<Handle>(given)); });
  m.def("concat", &concat);
  m.def("star", &star);
  m.def("plus", &plus);
  m.def("optional", &optional);
  m.attr("MANY_STATES") = MANY_STATES;
  auto limit = nb::arg("limit");
  m.def("determinize", [](const Handle& nfa, i64 most) { return Unlocked(nfa), determinize(nfa, most); }, nb::arg("nfa"), limit = STATES / 5);
  m.def("resolved", [](const Handle& nfa, double units) { return Unlocked(nfa), resolved(nfa, units); }, nb::arg("nfa"), nb::arg("units") = SIMPLIFYING);
  m.def("intersect", [](const Handle& a, const Handle& b, i64 most) { return Unlocked(std::max(a->moves.size(), b->moves.size())), intersect(a, b, most); }, nb::arg("a"),
        nb::arg("b"), limit = STATES);
  m.def("complement", [](const Handle& nfa) { return Unlocked(nfa), complement(nfa); });
  m.def("difference", [](const Handle& a, const Handle& b) { return Unlocked(std::max(a->moves.size(), b->moves.size())), difference(a, b); });
  m.def("minimize", [](const Handle& nfa, i64 most) { return Unlocked(nfa), minimize(nfa, most); }, nb::arg("nfa"), limit = STATES / 5);
  m.def("first_matches", [](const Handle& nfa) { return Unlocked(nfa), first_matches(nfa); });
  m.def("simplify", [](const Handle& nfa) { return Unlocked(nfa), simplify(nfa); });
  m.def("copied", [](const Handle& nfa, i64 low, i64 high) { return Unlocked(nfa), copied(nfa, low, high); });
}

}  // namespace tractile::automata
