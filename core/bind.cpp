// The core as a module of Python: tractile._core. What is asked and answered is described in `constraints/engine`.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "automaton.h"
#include "bind_tables.h"

namespace py = pybind11;
using namespace tractile;

template <class T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

using Unlocked = py::call_guard<py::gil_scoped_release>;

// The prefix tree of a vocabulary, its nodes level by level: the byte to each, the ranges of children, and of ranks of tokens that end
// there.
static std::shared_ptr<Trie> trie_of(Array<u8> byte, Array<i32> first, Array<i32> low, Array<i32> own, Array<i32> order, std::vector<std::string> text,
                                     i32 eos) {
  auto made = std::make_shared<Trie>();
  Trie& t = *made;
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
  t.eos = eos;
  t.put_in_order();
  return made;
}

// The rows of a matrix that are to be written.
struct Lines {
  char* data;
  py::ssize_t rows, step;
  i32 width;

  explicit Lines(py::array& out) : data(static_cast<char*>(out.mutable_data())), rows(out.ndim() == 2 ? out.shape(0) : 0) {
    if (out.ndim() != 2 || out.itemsize() != 4 || (out.strides(1) != 4 && out.shape(1) > 1 && rows)) throw py::value_error("masks are rows of 32-bit words, one after another");
    step = out.strides(0);
    width = i32(out.shape(1));
  }

  Row row(Automaton* automaton, py::handle state, py::handle budget, py::ssize_t at) const {
    if (at < 0 || at >= rows) throw py::index_error("there is no row " + std::to_string(at));
    if (width < automaton->trie().words) throw py::value_error("a mask has more words than a row");
    return {automaton, state.cast<i32>(), budget.cast<i64>(), reinterpret_cast<u32*>(data + at * step)};
  }
};

// Each row after its token: a tuple of the state, the tokens left and the row before. A row with no tokens left keeps its state.
static py::list after(Automaton& automaton, py::list rows, py::list tokens) {
  struct Move {
    i32 state, token;
    i64 budget;
  };
  std::vector<Move> moves;
  moves.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    auto row = py::reinterpret_borrow<py::tuple>(rows[i]);
    moves.push_back({row[0].cast<i32>(), tokens[i].cast<i32>(), row[1].cast<i64>()});
  }
  {
    py::gil_scoped_release release;
    for (Move& each : moves)
      if (each.budget > 0) each.state = automaton.step(each.state, each.token);
  }
  py::list found(moves.size());
  for (size_t i = 0; i < moves.size(); ++i) found[i] = py::make_tuple(moves[i].state, std::max<i64>(0, moves[i].budget - 1), rows[i]);
  return found;
}

// Masks of one automaton into the first rows: tuples that begin with a state and a budget.
static void fill_own(Automaton& automaton, py::list given, py::array out) {
  Lines lines(out);
  std::vector<Row> rows;
  rows.reserve(given.size());
  for (py::handle each : given) {
    auto row = py::reinterpret_borrow<py::tuple>(each);
    rows.push_back(lines.row(&automaton, row[0], row[1], py::ssize_t(rows.size())));
  }
  py::gil_scoped_release release;
  write(rows, lines.width);
}

// Masks of many automata: tuples (automaton, state, budget, row).
static void fill(py::list given, py::array out) {
  Lines lines(out);
  std::vector<Row> rows;
  rows.reserve(given.size());
  for (py::handle each : given) {
    auto row = py::reinterpret_borrow<py::tuple>(each);
    rows.push_back(lines.row(row[0].cast<Automaton*>(), row[1], row[2], row[3].cast<py::ssize_t>()));
  }
  py::gil_scoped_release release;
  write(rows, lines.width);
}

PYBIND11_MODULE(_core, m) {
  m.doc() = "The engine of constraints: see tractile.constraints.engine.";
  py::register_exception<LimitPassed>(m, "LimitPassed");
  py::register_exception<Exhausted>(m, "Exhausted");
  m.attr("INTERFACE") = 12;  // that of `constraints/core.py`
  m.attr("SLICE") = SLICE;
  py::dict limits;  // on which an answer depends
  limits["MOST_DEPTH"] = MOST_DEPTH;
  limits["MOST_FOLLOWED"] = MOST_FOLLOWED;
  limits["MOST_OBSERVERS"] = MOST_OBSERVERS;
  limits["MOST_TAKEN"] = MOST_TAKEN;
  limits["MOST_STATES"] = MOST_STATES;
  limits["EVERY_ORDER"] = EVERY_ORDER;
  limits["MOST_SOUGHT"] = MOST_SOUGHT;
  limits["MOST_SEARCHED"] = MOST_SEARCHED;
  limits["WORK"] = WORK;
  limits["STATES"] = STATES;
  limits["MOST_TIMES"] = MOST_TIMES;
  limits["MOST_NAMES"] = MOST_NAMES;
  m.attr("LIMITS") = limits;
  automata::bind_tables(m);
  m.def("allow", [](u64 steps) { allowed = steps, used = 0; });
  m.def("used", [] { return used; });
  m.def("fill", &fill);
  py::class_<Trie, std::shared_ptr<Trie>>(m, "Trie").def(py::init(&trie_of));
  py::class_<Core, std::shared_ptr<Core>>(m, "Core")
      .def(py::init<std::shared_ptr<Trie>>())
      .def("add_table",
           [](Core& core, const automata::Leaf& leaf, i32 base) {
             return core.add_table(&leaf.edges.data()->source, leaf.edges.size(), leaf.label, leaf.between, base, leaf.in_base, leaf.apart);
           },
           Unlocked())
      .def("add_node",
           [](Core& core, i32 kind, std::vector<i32> parts, std::vector<i32> tables, i64 low, i64 high, std::vector<i32> required, i32 members, bool ordered,
              const automata::Alive* live) {
             return core.add_node(kind, std::move(parts), std::move(tables), low, high, std::move(required), members, ordered,
                                  live ? live->begins : std::vector<i64>(), live ? live->sets : std::vector<std::vector<u8>>());
           },
           Unlocked())
      .def("define", &Core::define, Unlocked())
      .def("bytes", &Core::bytes)
      .def("work", [](const Core& core) {
        py::dict found;
        for (auto [name, count] : core.work()) found[name] = count;
        return found;
      });
  py::class_<Automaton>(m, "Automaton")
      .def(py::init<std::shared_ptr<Core>, i32, bool, bool>(), Unlocked())
      .def_property_readonly("start", &Automaton::start)
      .def("step", &Automaton::step, Unlocked())
      .def("after", &after)
      .def("reads", &Automaton::reads, Unlocked())
      .def("accepting", &Automaton::accepting, Unlocked())
      .def("fewest", &Automaton::fewest, Unlocked())
      .def("within", &Automaton::within, Unlocked())
      .def_property_readonly("is_exact", &Automaton::is_exact)
      .def("exact", &Automaton::exact, Unlocked())
      .def("allows", &Automaton::allows, Unlocked())
      .def("fill", &fill_own);
}
