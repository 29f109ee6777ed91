// Tables and the names of objects as objects of Python.
#pragma once

#include "bind_automata.h"
#include "counts.h"
#include "names.h"

namespace tractile::automata {

// The encodings of characters, asked of Python once each.
class AskedLetters : public Letters {
 public:
  explicit AskedLetters(nb::callable ways) : ways_(std::move(ways)) {}

 private:
  std::vector<Way> make(u32 character) override { return nb::cast<std::vector<Way>>(ways_(nb::steal(PyUnicode_FromOrdinal(int(character))))); }
  nb::callable ways_;
};

inline std::vector<std::vector<u32>> texts_of(nb::iterable given) {
  std::vector<std::vector<u32>> found;
  for (nb::handle each : given) {
    if (!PyUnicode_Check(each.ptr())) throw nb::type_error("texts are strings");
    auto& text = found.emplace_back(size_t(PyUnicode_GetLength(each.ptr())));
    if (!text.empty() && !PyUnicode_AsUCS4(each.ptr(), text.data(), Py_ssize_t(text.size()), 0)) throw nb::python_error();
  }
  return found;
}

inline Leaf leaf_read(nb::object rows, nb::object labels, std::optional<nb::object> between) {
  Leaf leaf;
  leaf.label = given<i32>(labels);
  leaf.edges = edges_given<i32>(rows, leaf.states());
  if (between) leaf.between = given<u8>(*between);
  return leaf;
}

// A set of small numbers as the bits of one.
inline nb::int_ bits(const std::vector<u64>& words) {
  if (words.size() == 1) return nb::int_(words[0]);
  nb::bytes all(words.data(), 8 * words.size());
  return nb::cast<nb::int_>(nb::module_::import_("builtins").attr("int").attr("from_bytes")(all, "little"));
}

inline nb::int_ labels_of(const Leaf& leaf) {
  i32 most = 0;
  for (i32 each : leaf.label) most = std::max(most, each);
  std::vector<u64> found(size_t(most) / 64 + 1, 0);
  for (i32 each : leaf.label)
    if (each >= 0) found[size_t(each) / 64] |= 1ull << each % 64;
  return bits(found);
}

// By state the labels that may still be read.
inline nb::list labels_ahead(const Leaf& leaf) {
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
  nb::list found;
  for (const auto& each : ahead) found.append(bits(each));
  return found;
}

inline std::vector<nb::list> leaf_rows(const Leaf& leaf) {
  std::vector<nb::list> found(size_t(leaf.states()));
  for (const auto& e : leaf.edges) found[size_t(e.source)].append(nb::make_tuple(e.low, e.high, e.target));
  return found;
}

inline std::vector<i32> ends_of(const Leaf& leaf) {
  std::vector<i32> found;
  for (i32 s = 0; s < leaf.states(); ++s)
    if (leaf.label[size_t(s)] >= 0) found.push_back(s);
  return found;
}

template <class Seen, class T>
auto seen(std::vector<T> Leaf::*some) {
  return [some](nb::handle self) { return view<Seen>(self, nb::cast<const Leaf&>(self).*some); };
}

inline void bind_tables(nb::module_& m) {
  bind_automata(m);
  auto made = [](nb::object edges, nb::object label, nb::object between, LeafHandle base, std::vector<i32> in_base, std::vector<u8> apart) {
    Leaf leaf = leaf_read(edges, label, between);
    leaf.base = base, leaf.in_base = std::move(in_base), leaf.apart = std::move(apart);
    return interned(std::move(leaf));
  };
  nb::class_<Leaf>(m, "Table", nb::dynamic_attr())
      .def(nb::new_(made), nb::arg("edges"), nb::arg("label"), nb::arg("between"), nb::arg("base").none(), nb::arg("in_base"), nb::arg("apart"))
      .def_prop_ro("num_states", &Leaf::states)
      .def_prop_ro("edges", seen<i32>(&Leaf::edges))
      .def_prop_ro("label", seen<i32>(&Leaf::label))
      .def_prop_ro("between", seen<bool>(&Leaf::between))
      .def_prop_ro("base", [](const Leaf& leaf) { return leaf.base; })
      .def_prop_ro("rows", once<Leaf>("_rows", &leaf_rows))
      .def_prop_ro("ends", once<Leaf>("_ends", &ends_of))
      .def_prop_ro("labels", once<Leaf>("_labels", &labels_of))
      .def_prop_ro("labels_ahead", once<Leaf>("_labels_ahead", &labels_ahead))
      .def_prop_ro("is_deterministic", &Leaf::is_deterministic)
      .def_prop_ro("goes_on", &Leaf::goes_on)
      .def_prop_ro("accepts_empty", [](const Leaf& leaf) { return leaf.label[0] >= 0; })
      .def("__reduce__", [](nb::object self) {
             const auto& leaf = nb::cast<const Leaf&>(self);
             return nb::make_tuple(nb::type<Leaf>(), nb::make_tuple(self.attr("edges"), self.attr("label"), self.attr("between"), leaf.base, leaf.in_base, leaf.apart));
           });
  m.def("table", [](nb::object edges, nb::object label, std::optional<nb::object> between) { return interned(leaf_read(edges, label, between)); }, nb::arg("edges"),
        nb::arg("label"), nb::arg("between") = nb::none());
  m.def("of_nfa", [](const Handle& nfa) { return Unlocked(nfa), leaf_of(nfa); });
  m.def("to_nfa", &to_nfa);
  m.def("of_text", &leaf_of_text);
  m.def("with_fresh_start", &with_fresh_start);
  m.def("loop", &loop);
  m.def("letters", [](const Handle& words, const Handle& text) { return Unlocked(words), letters(words, text); });
  m.def("around", [](const LeafHandle& inside, const std::string& opening, u8 closing) { return around(inside, opening, closing); });
  m.def("together", [](const std::vector<Handle>& parts, i64 limit) {
    Together found = together(parts, limit);
    return nb::make_tuple(rows_of(found.nfa), found.reads);
  });
  nb::class_<Alive>(m, "Alive")
      .def_ro("last", &Alive::last)
      .def_prop_ro("num_states", &Alive::states)
      .def_prop_ro("can_begin", [](const Alive& live) { return live.sets[0][0] != 0; })
      .def("after", [](nb::handle self, i64 characters) { return view<bool>(self, nb::cast<const Alive&>(self).after(characters)); });
  m.def("alive", [](const Leaf& leaf, i64 low, std::optional<i64> high) { return Unlocked(leaf.edges.size()), alive(leaf, low, high.value_or(NONE)); });
  m.def("written_out", [](const Leaf& leaf, const Alive& live, i64 low, std::optional<i64> high) { return written_out(leaf, live, low, high.value_or(NONE)); });
  auto letters = nb::arg("letters").lock();  // they are kept as they are asked for
  nb::class_<AskedLetters>(m, "Letters").def(nb::init<nb::callable>());
  m.def("words", [](nb::iterable texts, AskedLetters& letters) { return words(texts_of(texts), letters); }, nb::arg("texts"), letters);
  nb::class_<Inside>(m, "Names").def_prop_ro("base", [](const Inside& names) { return names.base; });
  m.def("names_of", &names_of);
  m.def("inside", [](nb::iterable texts, const std::vector<i32>& labels, i32 live, Names base, AskedLetters& letters, u8 closing, const std::string& joint) {
    return inside(texts_of(texts), labels, live, base, letters, closing, joint);
  }, nb::arg("texts"), nb::arg("labels"), nb::arg("live"), nb::arg("base").none(), letters, nb::arg("closing"), nb::arg("joint"));
  m.def("names_table", [](const std::vector<Names>& parts, const std::string& before, i32 blank, const std::vector<std::string>& openings,
                          std::optional<std::vector<i32>> labels, const std::vector<i32>& others, LeafHandle base) {
    return names_table(parts, {before, blank, openings}, labels ? &*labels : nullptr, others, base);
  }, nb::arg("parts"), nb::arg("before"), nb::arg("blank"), nb::arg("openings"), nb::arg("labels").none(), nb::arg("others"), nb::arg("base").none());
}

}  // namespace tractile::automata
