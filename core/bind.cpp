// The core as a module of Python: tractile._core. What is asked and answered is described in `constraints/engine`.
#include "automaton.h"
#include "bind_tables.h"

using namespace tractile;

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

// The prefix tree of a vocabulary, its nodes level by level: the byte to each, the ranges of children, and of ranks of tokens that end
// there.
static std::shared_ptr<Trie> trie_of(nb::object bytes, nb::object children, nb::object ranks, nb::object counts, nb::object tokens, std::vector<std::string> text,
                                     i32 eos) {
  const std::vector<i32> low = given<i32>(ranks), own = given<i32>(counts), order = given<i32>(tokens);
  auto made = std::make_shared<Trie>();
  Trie& t = *made;
  t.byte = given<u8>(bytes);
  t.first = given<i32>(children);
  t.own_begin.push_back(0);
  for (size_t n = 0; n < t.byte.size(); ++n) {
    const i32* rank = order.data() + low.at(n);
    t.own.insert(t.own.end(), rank, rank + own.at(n));
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
  Py_buffer seen;
  explicit Lines(nb::handle out) {
    if (PyObject_GetBuffer(out.ptr(), &seen, PyBUF_STRIDES | PyBUF_WRITABLE)) throw nb::python_error();
    if (seen.ndim == 2 && seen.itemsize == 4 && (seen.strides[1] == 4 || seen.shape[1] < 2 || !seen.shape[0])) return;
    PyBuffer_Release(&seen);
    throw nb::value_error("masks are rows of 32-bit words, one after another");
  }
  ~Lines() { PyBuffer_Release(&seen); }
  Lines(const Lines&) = delete;

  i32 width() const { return i32(seen.shape[1]); }
  Row row(Automaton* automaton, nb::handle state, nb::handle budget, i64 at) const {
    if (at < 0 || at >= seen.shape[0]) throw nb::index_error(("there is no row " + std::to_string(at)).c_str());
    if (width() < automaton->trie().words) throw nb::value_error("a mask has more words than a row");
    return {automaton, nb::cast<i32>(state), nb::cast<i64>(budget), reinterpret_cast<u32*>(static_cast<char*>(seen.buf) + at * seen.strides[0])};
  }
};

// Each row after its token: a tuple of the state, the tokens left and the row before. A row with no tokens left keeps its state.
static nb::list after(Automaton& automaton, nb::list rows, nb::list tokens) {
  struct Move {
    i32 state, token;
    i64 budget;
  };
  std::vector<Move> moves;
  moves.reserve(rows.size());
  if (tokens.size() < rows.size()) throw nb::index_error("each row takes a token");
  for (size_t i = 0; i < rows.size(); ++i) {
    nb::tuple row = items(rows[i], 2);
    moves.push_back({nb::cast<i32>(row[0]), nb::cast<i32>(tokens[i]), nb::cast<i64>(row[1])});
  }
  {
    nb::gil_scoped_release release;
    for (Move& each : moves)
      if (each.budget > 0) each.state = automaton.step(each.state, each.token);
  }
  nb::list_builder found(moves.size());
  for (size_t i = 0; i < moves.size(); ++i) found.put(nb::make_tuple(moves[i].state, std::max<i64>(0, moves[i].budget - 1), nb::object(rows[i])));
  return found.commit();
}

// Masks of one automaton into the first rows: tuples that begin with a state and a budget.
static void fill_own(Automaton& automaton, nb::list given, nb::handle out) {
  Lines lines(out);
  std::vector<Row> rows;
  rows.reserve(given.size());
  for (nb::handle each : given) {
    nb::tuple row = items(each, 2);
    rows.push_back(lines.row(&automaton, row[0], row[1], i64(rows.size())));
  }
  nb::gil_scoped_release release;
  write(rows, lines.width());
}

// Masks of many automata: tuples (automaton, state, budget, row).
static void fill(nb::list given, nb::handle out) {
  Lines lines(out);
  std::vector<Row> rows;
  rows.reserve(given.size());
  for (nb::handle each : given) {
    nb::tuple row = items(each, 4);
    rows.push_back(lines.row(&nb::cast<Automaton&>(row[0]), row[1], row[2], nb::cast<i64>(row[3])));
  }
  nb::gil_scoped_release release;
  write(rows, lines.width());
}

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // what Python keeps for a process is not asked to go
  m.doc() = "The engine of constraints: see tractile.constraints.engine.";
  nb::exception<LimitPassed>(m, "LimitPassed");
  nb::exception<Exhausted>(m, "Exhausted");
  m.attr("INTERFACE") = 12;  // that of `constraints/core.py`
  m.attr("SLICE") = SLICE;
  const std::pair<const char*, i64> bounds[] = {
      {"MOST_DEPTH", MOST_DEPTH}, {"MOST_FOLLOWED", MOST_FOLLOWED}, {"MOST_OBSERVERS", MOST_OBSERVERS}, {"MOST_TAKEN", MOST_TAKEN}, {"MOST_STATES", MOST_STATES},
      {"EVERY_ORDER", EVERY_ORDER}, {"MOST_SOUGHT", MOST_SOUGHT}, {"MOST_SEARCHED", MOST_SEARCHED}, {"WORK", WORK}, {"STATES", STATES},
      {"MOST_TIMES", MOST_TIMES}, {"MOST_NAMES", MOST_NAMES}};
  nb::dict limits;  // on which an answer depends
  for (auto [name, value] : bounds) limits[name] = value;
  m.attr("LIMITS") = limits;
  automata::bind_tables(m);
  m.def("allow", [](u64 steps) { allowed = steps, used = 0; });
  m.def("used", [] { return used; });
  m.def("fill", &fill);
  nb::class_<Trie>(m, "Trie").def(nb::new_(&trie_of));
  nb::class_<Core>(m, "Core")
      .def(nb::init<std::shared_ptr<Trie>>())
      .def("add_table", [](Core& core, const automata::Leaf& leaf, i32 base) {
             return core.add_table(&leaf.edges.data()->source, leaf.edges.size(), leaf.label, leaf.between, base, leaf.in_base, leaf.apart);
           }, Unlocked())
      .def("add_node", [](Core& core, i32 kind, std::vector<i32> parts, std::vector<i32> tables, i64 low, i64 high, std::vector<i32> required, i32 members, bool ordered,
              const automata::Alive* live) {
             return core.add_node(kind, std::move(parts), std::move(tables), low, high, std::move(required), members, ordered,
                                  live ? live->begins : std::vector<i64>(), live ? live->sets : std::vector<std::vector<u8>>());
           },
           nb::arg("kind"), nb::arg("parts"), nb::arg("tables"), nb::arg("low"), nb::arg("high"), nb::arg("required"), nb::arg("members"), nb::arg("ordered"),
           nb::arg("live").none(), Unlocked())
      .def("define", &Core::define, Unlocked())
      .def("bytes", &Core::bytes)
      .def("work", [](Core& core) {
        auto counts = (nb::gil_scoped_release(), core.work());
        nb::dict found;
        for (auto [name, count] : counts) found[name] = count;
        return found;
      });
  nb::class_<Automaton>(m, "Automaton")
      .def(nb::init<std::shared_ptr<Core>, i32, bool, bool>(), Unlocked())
      .def_prop_ro("start", &Automaton::start)
      .def("step", &Automaton::step, Unlocked())
      .def("after", &after)
      .def("reads", &Automaton::reads, Unlocked())
      .def("accepting", &Automaton::accepting, Unlocked())
      .def("fewest", &Automaton::fewest, Unlocked())
      .def("within", &Automaton::within, Unlocked())
      .def_prop_ro("is_exact", &Automaton::is_exact)
      .def("exact", &Automaton::exact, Unlocked())
      .def("allows", &Automaton::allows, Unlocked())
      .def("fill", &fill_own);
}
