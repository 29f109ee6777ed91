// Tables and the names of objects as objects of Python.
#pragma once

#include "bind_automata.h"
#include "counts.h"
#include "names.h"

namespace tractile::automata {

// The encodings of characters, asked of Python once each.
class AskedLetters : public Letters {
 public:
  explicit AskedLetters(py::function ways) : ways_(std::move(ways)) {}

 private:
  std::vector<Way> make(u32 character) override { return ways_(py::reinterpret_steal<py::object>(PyUnicode_FromOrdinal(int(character)))).cast<std::vector<Way>>(); }
  py::function ways_;
};

inline std::vector<std::vector<u32>> texts_of(py::iterable given) {
  std::vector<std::vector<u32>> found;
  for (py::handle each : given) {
    if (!PyUnicode_Check(each.ptr())) throw py::type_error("texts are strings");
    auto& text = found.emplace_back(size_t(PyUnicode_GET_LENGTH(each.ptr())));
    for (size_t i = 0; i < text.size(); ++i) text[i] = u32(PyUnicode_READ_CHAR(each.ptr(), py::ssize_t(i)));
  }
  return found;
}

inline Leaf leaf_read(Given<i32> edges, Given<i32> label, std::optional<Given<u8>> between) {
  Leaf leaf;
  leaf.label.assign(label.data(), label.data() + label.size());
  for (py::ssize_t i = 0; i + 3 < edges.size(); i += 4) {
    const i32* e = edges.data() + i;
    if (e[0] < 0 || e[0] >= leaf.states() || e[3] < 0 || e[3] >= leaf.states() || e[1] < 0 || e[1] > e[2] || e[2] > 255) throw py::value_error("an edge leads to no state, or reads no byte");
    leaf.edges.push_back({e[0], e[1], e[2], e[3]});
  }
  if (between) leaf.between.assign(between->data(), between->data() + between->size());
  return leaf;
}

// A set of small numbers as the bits of one.
inline py::object bits(const std::vector<u64>& words) {
  if (words.size() == 1) return py::int_(words[0]);
  py::bytes all(reinterpret_cast<const char*>(words.data()), 8 * words.size());
  return py::module_::import("builtins").attr("int").attr("from_bytes")(all, "little");
}

inline py::object labels_of(const Leaf& leaf) {
  std::vector<u64> found(1, 0);
  for (i32 each : leaf.label)
    if (each >= 0) {
      if (size_t(each) / 64 >= found.size()) found.resize(size_t(each) / 64 + 1, 0);
      found[size_t(each) / 64] |= 1ull << each % 64;
    }
  return bits(found);
}

// By state the labels that may still be read.
inline py::list labels_ahead(const Leaf& leaf) {
  i32 most = 0;
  for (i32 each : leaf.label) most = std::max(most, each + 1);
  spend(leaf.states() * (1 + most / 1000.0) / 2);
  const size_t words = size_t(most) / 64 + 1, states = leaf.label.size();
  std::vector<i32> end(states + 1, 0), before(leaf.edges.size()), todo;
  for (const auto& e : leaf.edges) ++end[size_t(e.target) + 1];
  for (size_t s = 0; s < states; ++s) end[s + 1] += end[s];
  std::vector<i32> at(end.begin(), end.end() - 1);
  for (const auto& e : leaf.edges) before[size_t(at[size_t(e.target)]++)] = e.source;
  std::vector<std::vector<u64>> ahead(states, std::vector<u64>(words, 0));
  for (size_t s = 0; s < states; ++s)
    if (i32 label = leaf.label[s]; label >= 0) ahead[s][size_t(label) / 64] |= 1ull << label % 64, todo.push_back(i32(s));
  while (!todo.empty()) {
    const size_t s = size_t(todo.back());
    todo.pop_back();
    for (i32 b = end[s]; b < end[s + 1]; ++b) {
      auto& known = ahead[size_t(before[size_t(b)])];
      bool grown = false;
      for (size_t w = 0; w < words; ++w) grown |= (ahead[s][w] & ~known[w]) != 0, known[w] |= ahead[s][w];
      if (grown) todo.push_back(before[size_t(b)]);
    }
  }
  py::list found;
  for (const auto& each : ahead) found.append(bits(each));
  return found;
}

inline py::list leaf_rows(const Leaf& leaf) {
  py::list found;
  for (i32 s = 0; s < leaf.states(); ++s) found.append(py::list());
  for (const auto& e : leaf.edges) py::list(found[size_t(e.source)]).append(py::make_tuple(e.low, e.high, e.target));
  return found;
}

inline std::vector<i32> ends_of(const Leaf& leaf) {
  std::vector<i32> found;
  for (i32 s = 0; s < leaf.states(); ++s)
    if (leaf.label[size_t(s)] >= 0) found.push_back(s);
  return found;
}

inline void bind_tables(py::module_& m) {
  bind_automata(m);
  py::class_<Leaf, LeafHandle>(m, "Table", py::dynamic_attr())
      .def_property_readonly("num_states", &Leaf::states)
      .def_property_readonly("edges", [](py::object self) {
             const auto& edges = self.cast<const Leaf&>().edges;
             return view(self, edges, {py::ssize_t(edges.size()), 4}, py::dtype::of<i32>());
           })
      .def_property_readonly("label", [](py::object self) {
             const auto& label = self.cast<const Leaf&>().label;
             return view(self, label, {py::ssize_t(label.size())}, py::dtype::of<i32>());
           })
      .def_property_readonly("between", [](py::object self) {
             const auto& between = self.cast<const Leaf&>().between;
             return view(self, between, {py::ssize_t(between.size())}, py::dtype::of<bool>());
           })
      .def_property_readonly("base", [](const Leaf& leaf) { return leaf.base; })
      .def_property_readonly("rows", [](py::object self) { return kept(self, "_rows", [&] { return leaf_rows(self.cast<const Leaf&>()); }); })
      .def_property_readonly("ends", [](py::object self) { return kept(self, "_ends", [&] { return py::cast(ends_of(self.cast<const Leaf&>())); }); })
      .def_property_readonly("labels", [](py::object self) { return kept(self, "_labels", [&] { return labels_of(self.cast<const Leaf&>()); }); })
      .def_property_readonly("labels_ahead", [](py::object self) { return kept(self, "_labels_ahead", [&] { return labels_ahead(self.cast<const Leaf&>()); }); })
      .def_property_readonly("is_deterministic", &Leaf::is_deterministic)
      .def_property_readonly("goes_on", &Leaf::goes_on)
      .def_property_readonly("accepts_empty", [](const Leaf& leaf) { return leaf.label[0] >= 0; })
      .def("__reduce__", [](py::object self) {
             const auto& leaf = self.cast<const Leaf&>();
             return py::make_tuple(py::module_::import("tractile._core").attr("table_again"),
                                   py::make_tuple(self.attr("edges"), self.attr("label"), self.attr("between"), leaf.base, leaf.in_base, leaf.apart));
           });
  m.def("table_again", [](Given<i32> edges, Given<i32> label, Given<u8> between, const LeafHandle& base, std::vector<i32> in_base, std::vector<u8> apart) {
    Leaf leaf = leaf_read(edges, label, between);
    leaf.base = base, leaf.in_base = std::move(in_base), leaf.apart = std::move(apart);
    return interned(std::move(leaf));
  });
  m.def("table", [](Given<i32> edges, Given<i32> label, std::optional<Given<u8>> between) { return interned(leaf_read(edges, label, between)); }, py::arg("edges"), py::arg("label"), py::arg("between") = py::none());
  m.def("of_nfa", [](const Handle& nfa) { return Unlocked(nfa), leaf_of(nfa); });
  m.def("to_nfa", &to_nfa);
  m.def("of_text", &leaf_of_text);
  m.def("with_fresh_start", &with_fresh_start);
  m.def("loop", &loop);
  m.def("letters", [](const Handle& words, const Handle& text) { return Unlocked(words), letters(words, text); });
  m.def("around", [](const LeafHandle& inside, const std::string& opening, u8 closing) { return around(inside, opening, closing); });
  m.def("together", [](const std::vector<Handle>& parts, i64 limit) {
    Together found = together(parts, limit);
    return py::make_tuple(rows_of(found.nfa), found.reads);
  });
  auto flags = [](py::object self, const std::vector<u8>& some) { return view(self, some, {py::ssize_t(some.size())}, py::dtype::of<bool>()); };
  py::class_<Alive>(m, "Alive")
      .def_readonly("last", &Alive::last)
      .def_property_readonly("num_states", &Alive::states)
      .def_property_readonly("can_begin", [](const Alive& live) { return live.sets[0][0] != 0; })
      .def("after", [flags](py::object self, i64 characters) { return flags(self, self.cast<const Alive&>().after(characters)); });
  m.def("alive", [](const Leaf& leaf, i64 low, std::optional<i64> high) { return Unlocked(leaf.edges.size()), alive(leaf, low, high.value_or(NONE)); });
  m.def("written_out", [](const Leaf& leaf, const Alive& live, i64 low, std::optional<i64> high) { return written_out(leaf, live, low, high.value_or(NONE)); });
  py::class_<AskedLetters>(m, "Letters").def(py::init<py::function>());
  m.def("words", [](py::iterable texts, AskedLetters& letters) { return words(texts_of(texts), letters); });
  py::class_<Inside, Names>(m, "Names")
      .def_property_readonly("base", [](const Inside& names) { return names.base; });
  m.def("names_of", &names_of);
  m.def("inside", [](py::iterable texts, const std::vector<i32>& labels, i32 live, const Names& base, AskedLetters& letters, u8 closing, const std::string& joint) {
    return inside(texts_of(texts), labels, live, base, letters, closing, joint);
  });
  m.def("names_table", [](const std::vector<Names>& parts, const std::string& before, i32 blank, const std::vector<std::string>& openings,
                          std::optional<std::vector<i32>> labels, const std::vector<i32>& others, const LeafHandle& base) {
    return names_table(parts, {before, blank, openings}, labels ? &*labels : nullptr, others, base);
  });
}

}  // namespace tractile::automata
