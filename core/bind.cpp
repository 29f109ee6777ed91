// The core as a module of Python: tractile._core. What is asked and answered is described in `constraints/engine`.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <mutex>

#include "masks.h"

namespace py = pybind11;
using namespace tractile;

template <class T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

// Of the calls of one thread: the steps that a call's searches may take, and those that the last one took.
static thread_local u64 allowed = ~0ull, used = 0;

// All that is known of one vocabulary: the nodes that were given, stacks, configurations, masks, distances. One thread at a time.
class Core {
 private:
  template <class F>
  auto locked(F&& f) {
    py::gil_scoped_release release;
    std::lock_guard<std::mutex> hold(mutex_);
    struct Count {  // the steps of this call
      Crossing& crossing;
      u64 before;
      ~Count() { used = crossing.taken - before; }
    } count{crossing_, crossing_.taken};
    crossing_.allow(allowed);
    return f();
  }

 public:
  // The prefix tree, its nodes level by level: the byte to each, the ranges of children, and of ranks of tokens that end there.
  Core(Array<u8> byte, Array<i32> first, Array<i32> low, Array<i32> own, Array<i32> order, std::vector<std::string> text)
      : trie_(trie_of(byte, first, low, own, order, std::move(text))),
        positions_(trie_),
        lexer_(stacks_.tables, positions_),
        crossing_(stacks_, positions_, lexer_),
        masks_(stacks_, positions_, lexer_, crossing_) {}

  i32 add_table(Array<i32> edges, std::vector<i32> label, std::vector<u8> between, i32 base, std::vector<i32> in_base,
                std::vector<u8> apart) {
    std::lock_guard<std::mutex> hold(mutex_);
    stacks_.tables.push_back(Table::of(edges.data(), edges.size() / 4, std::move(label), std::move(between)));
    if (base != NONE) stacks_.tables.back().share(base, stacks_.tables[base].states, std::move(in_base), std::move(apart));
    const Table& made = stacks_.tables.back();
    table_bytes_ += 4 * made.next.size() + 16 * made.moves.size() + 40 * size_t(made.states);
    return i32(stacks_.tables.size() - 1);
  }

  i32 add_node(i32 kind, std::vector<i32> parts, std::vector<i32> tables, i64 low, i64 high, std::vector<i32> required, i32 members,
               bool ordered, std::vector<i64> begins, std::vector<std::vector<u8>> sets) {
    std::lock_guard<std::mutex> hold(mutex_);
    table_bytes_ += 200 + 8 * begins.size() + 4 * parts.size();
    for (const auto& set : sets) table_bytes_ += set.size();
    Node n;
    n.kind = Kind(kind);
    n.parts = std::move(parts);
    n.tables = std::move(tables);
    n.low = low, n.high = high, n.members = members, n.ordered = ordered;
    n.required.assign(n.parts.size() / 64 + 1, 0);
    for (i32 label : required) n.required[label / 64] |= 1ull << label % 64;
    n.begins = std::move(begins);
    n.sets = std::move(sets);
    n.nothing = n.kind == ALT && n.parts.empty();
    stacks_.nodes.push_back(std::move(n));
    return i32(stacks_.nodes.size() - 1);
  }

  void define(i32 rule, i32 body) {
    std::lock_guard<std::mutex> hold(mutex_);
    stacks_.nodes[rule].parts = {body};
  }

  // `spelled`, here and below: whether the tokens write all that the program reads, so that what may be read has an end.
  i32 start(i32 node, bool spelled) {
    return locked([&] { return masks_.after_token(stacks_.start(node), spelled); });
  }

  i32 read(i32 configuration, const std::string& text) {
    return locked([&] { return after(configuration, text); });
  }

  i32 step(i32 configuration, i32 token, bool spelled) {
    const std::string& text = trie_.text.at(token);
    if (text.empty()) return NONE;
    return locked([&] { return masks_.after_token(after(configuration, text), spelled); });
  }

  bool accepting(i32 configuration) {
    return locked([&] { return stacks_.configurations.at(configuration).accepting; });
  }

  i32 fewest(i32 configuration, i32 most, bool spelled) {
    return locked([&] { return masks_.fewest(configuration, most, spelled); });
  }

  void words(i32 configuration, bool spelled, Array<u32> out) {
    u32* data = out.mutable_data();
    locked([&] { return masks_.words(configuration, spelled, data), 0; });
  }

  void words_within(i32 configuration, i32 left, bool spelled, Array<u32> out) {
    u32* data = out.mutable_data();
    locked([&] { return masks_.words_within(configuration, left, spelled, data), 0; });
  }

  // An upper bound of the tokens that complete a text after any token that may follow.
  i64 enough(i32 configuration, bool spelled) {
    return locked([&] { return masks_.enough(configuration, spelled); });
  }

  size_t bytes() const { return table_bytes_ + stacks_.bytes() + positions_.bytes() + lexer_.bytes() + crossing_.bytes() + masks_.bytes(); }

  py::dict work() const {
    py::dict found;
    found["lexed"] = lexer_.visited;
    found["walked"] = masks_.visited;
    found["crossed"] = crossing_.taken;
    found["configurations"] = stacks_.configurations.size();
    found["bytes of stacks"] = stacks_.bytes();
    found["bytes of positions"] = positions_.bytes();
    found["bytes of lexemes"] = lexer_.bytes();
    found["bytes of distances"] = crossing_.bytes();
    found["bytes of masks"] = masks_.bytes();
    return found;
  }

 private:
  i32 after(i32 configuration, const std::string& text) {
    for (size_t i = 0; i < text.size() && configuration != NONE; ++i) configuration = stacks_.step(configuration, u8(text[i]));
    return configuration;
  }

  static Trie trie_of(Array<u8>& byte, Array<i32>& first, Array<i32>& low, Array<i32>& own, Array<i32>& order,
                      std::vector<std::string> text) {
    Trie t;
    t.byte.assign(byte.data(), byte.data() + byte.size());
    t.first.assign(first.data(), first.data() + first.size());
    t.own_begin.push_back(0);
    for (py::ssize_t n = 0; n < byte.size(); ++n) {
      const i32* rank = order.data() + low.data()[n];
      t.own.insert(t.own.end(), rank, rank + own.data()[n]);
      t.own_begin.push_back(i32(t.own.size()));
    }
    t.text = std::move(text);
    t.vocab = i32(t.text.size());
    t.words = (t.vocab + 31) / 32;
    t.put_in_order();
    return t;
  }

  Trie trie_;
  Stacks stacks_;
  Positions positions_;
  Lexer lexer_;
  Crossing crossing_;
  Masks masks_;
  std::mutex mutex_;
  size_t table_bytes_ = 0;
};

PYBIND11_MODULE(_core, m) {
  m.doc() = "The engine of constraints, compiled: see tractile.constraints.engine for its definition.";
  py::register_exception<LimitPassed>(m, "LimitPassed");
  py::register_exception<Exhausted>(m, "Exhausted");
  m.attr("INTERFACE") = 4;  // that of `constraints/engine/native.py`
  m.def("allow", [](u64 steps) { allowed = steps; });
  m.def("used", [] { return used; });
  py::class_<Core>(m, "Core")
      .def(py::init<Array<u8>, Array<i32>, Array<i32>, Array<i32>, Array<i32>, std::vector<std::string>>())
      .def("add_table", &Core::add_table)
      .def("add_node", &Core::add_node)
      .def("define", &Core::define)
      .def("start", &Core::start)
      .def("read", &Core::read)
      .def("step", &Core::step)
      .def("accepting", &Core::accepting)
      .def("fewest", &Core::fewest)
      .def("words", &Core::words)
      .def("words_within", &Core::words_within)
      .def("enough", &Core::enough)
      .def("bytes", &Core::bytes)
      .def("work", &Core::work);
}
