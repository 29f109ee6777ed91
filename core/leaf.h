// Tables: byte automata as the leaves of a program, `Table` in Python; see `constraints/program/tables.py`. The engine makes tables of its
// own of them, with what it looks up (`program.h`).
#pragma once

#include <mutex>
#include <unordered_map>

#include "dfa.h"

namespace tractile::automata {

struct Leaf : std::enable_shared_from_this<Leaf> {
  using Edge = automata::Edge;
  std::vector<Edge> edges;  // sorted by source and lowest byte
  std::vector<i32> label;
  std::vector<u8> between;
  std::shared_ptr<Leaf> base;
  std::vector<i32> in_base;
  std::vector<u8> apart;
  u64 hash = 0;

  i32 states() const { return i32(label.size()); }

  // Whether no two moves of a state read the same byte.
  bool is_deterministic() const {
    for (size_t i = 1; i < edges.size(); ++i)
      if (edges[i].source == edges[i - 1].source && edges[i].low <= edges[i - 1].high) return false;
    return true;
  }

  // Whether a text goes on where another ends.
  bool goes_on() const {
    return std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) { return label[size_t(edge.source)] >= 0; });
  }

  // Whether there are moves into the start.
  bool begins_again() const {
    return std::any_of(edges.begin(), edges.end(), [](const Edge& edge) { return edge.target == 0; });
  }

  bool equals(const Leaf& o) const { return hash == o.hash && base == o.base && edges == o.edges && label == o.label && between == o.between; }

  Leaf() = default;
  Leaf(Leaf&&) = default;
  ~Leaf();
};

using Known = std::unordered_multimap<u64, std::weak_ptr<Leaf>>;
struct Register {
  std::mutex mutex;
  Known known;
};

inline Register& leaves() {
  static Register* all = new Register;  // never destroyed: leaves may outlive statics
  return *all;
}

inline Leaf::~Leaf() {
  Register& all = leaves();
  std::lock_guard<std::mutex> hold(all.mutex);
  auto [from, to] = all.known.equal_range(hash);
  while (from != to) from = from->second.expired() ? all.known.erase(from) : std::next(from);
}

using LeafHandle = std::shared_ptr<Leaf>;

// The table of these arrays: the one that is known if an equal one is alive.
inline LeafHandle interned(Leaf&& given) {
  auto before = [](const Leaf::Edge& a, const Leaf::Edge& b) { return a.source != b.source ? a.source < b.source : a.low < b.low; };
  if (!std::is_sorted(given.edges.begin(), given.edges.end(), before)) std::stable_sort(given.edges.begin(), given.edges.end(), before);
  if (given.between.empty()) given.between.assign(given.label.size(), 0);
  u64 hash = u64(reinterpret_cast<uintptr_t>(given.base.get()));
  for (const auto& e : given.edges) hash = mixed(hash, (u64(u32(e.source)) << 32 | u32(e.target)) ^ (u64(e.low) << 56 | u64(e.high) << 24));
  for (i32 each : given.label) hash = mixed(hash, u64(u32(each)));
  given.hash = hash;
  std::vector<LeafHandle> met;  // let go of after the lock: a table that goes takes it
  Register& all = leaves();
  std::lock_guard<std::mutex> hold(all.mutex);
  auto [from, to] = all.known.equal_range(hash);
  LeafHandle found;
  for (; from != to && !found; ++from)
    if (LeafHandle known = from->second.lock()) {
      if (known->equals(given)) found = known;
      met.push_back(std::move(known));
    }
  if (!found) {
    found = std::make_shared<Leaf>(std::move(given));
    all.known.emplace(hash, found);
  }
  return found;
}

// The table of a byte automaton, minimal if it could be determinized; null if it accepts nothing. States are in the order of a
// breadth-first search, so that equal languages give equal tables.
inline LeafHandle leaf_of(const Handle& given) {
  Handle nfa = resolved(simplify(given), SIMPLIFYING);
  if (!nfa->states()) return nullptr;
  if (nfa->start.size() > 1) nfa = plain(network(2, {{0, nfa, 1}}, 0, 1));
  std::vector<i32> order = nfa->start, number(size_t(nfa->states()), NONE);
  number[size_t(order[0])] = 0;
  Leaf leaf;
  leaf.edges.reserve(nfa->moves.size());
  for (size_t at = 0; at < order.size(); ++at)
    for (const Move& move : nfa->row(order[at])) {
      i32& to = number[size_t(move.to)];
      if (to == NONE) to = i32(order.size()), order.push_back(move.to);
      leaf.edges.push_back({i32(at), move.low, move.high, to});
    }
  leaf.label.assign(order.size(), NONE);
  for (i32 state : nfa->accept) leaf.label[size_t(number[size_t(state)])] = 0;
  return interned(std::move(leaf));
}

// A table as an automaton, its labels forgotten.
inline Handle to_nfa(const Leaf& leaf) {
  Handle made = of_edges(leaf.states(), leaf.edges);
  made->start = {0};
  for (i32 s = 0; s < leaf.states(); ++s)
    if (leaf.label[size_t(s)] >= 0) made->accept.push_back(s);
  return made;
}

// The table of exactly one text.
inline LeafHandle leaf_of_text(const std::string& text) {
  check_limit(i64(text.size()));
  Leaf leaf;
  for (size_t i = 0; i < text.size(); ++i) leaf.edges.push_back({i32(i), u8(text[i]), u8(text[i]), i32(i) + 1});
  leaf.label.assign(text.size() + 1, NONE);
  leaf.label.back() = 0;
  return interned(std::move(leaf));
}

// The table of the same texts whose start has no moves into it: in state 0 nothing has been read.
inline LeafHandle with_fresh_start(const LeafHandle& found) {
  if (!found->begins_again()) return found;
  Leaf leaf;
  for (const auto& e : found->edges)
    if (e.source == 0) leaf.edges.push_back({0, e.low, e.high, e.target + 1});
  for (const auto& e : found->edges) leaf.edges.push_back({e.source + 1, e.low, e.high, e.target + 1});
  leaf.label = found->label;
  leaf.label.insert(leaf.label.begin(), found->label[0]);
  leaf.between = found->between;
  leaf.between.insert(leaf.between.begin(), found->between[0]);
  return interned(std::move(leaf));
}

// The table of texts of `found` in a row, a character ending with each; null if one text goes on where another ends.
inline LeafHandle loop(const Leaf& found) {
  if (found.label[0] >= 0 || found.begins_again() || found.goes_on() || !found.is_deterministic()) return nullptr;
  std::vector<i32> number(found.label.size(), 0);  // all ends are the start, whose number stays
  i32 states = 0;
  for (size_t s = 0; s < number.size(); ++s)
    if (found.label[s] < 0) number[s] = states++;
  Leaf leaf;
  for (const auto& e : found.edges) leaf.edges.push_back({number[size_t(e.source)], e.low, e.high, number[size_t(e.target)]});
  leaf.label.assign(size_t(states), NONE);
  leaf.between.assign(size_t(states), 0);
  leaf.label[0] = 0, leaf.between[0] = 1;
  return interned(std::move(leaf));
}

// The table of the valid UTF-8 that the DFA `words` accepts, its states marked `between` where a character ends: there `text`, the DFA
// of all UTF-8, is at its start. Null if there is no such text.
inline LeafHandle letters(const Handle& words, const Handle& text) {
  Handle found = intersect(words, text);
  if (!found->states()) return nullptr;
  std::vector<i32> order = {found->start[0]}, place = {text->start[0]}, number(size_t(found->states()), NONE);
  number[size_t(order[0])] = 0;
  Leaf leaf;
  for (size_t at = 0; at < order.size(); ++at)
    for (const Move& move : found->row(order[at])) {
      i32& to = number[size_t(move.to)];
      if (to == NONE) {
        to = i32(order.size());
        order.push_back(move.to);
        place.push_back(text->after(place[at], move.low));
      }
      leaf.edges.push_back({i32(at), move.low, move.high, to});
    }
  const std::vector<u8> ends = marked(found->states(), found->accept);
  for (size_t at = 0; at < order.size(); ++at) {
    leaf.label.push_back(ends[size_t(order[at])] ? 0 : NONE);
    leaf.between.push_back(place[at] == text->start[0]);
  }
  return interned(std::move(leaf));
}

// The table of strings: what is inside them, with the bytes around it, one of which may open a string or none. What opens one ends no
// character.
inline LeafHandle around(const LeafHandle& given, const std::string& opening, u8 closing) {
  LeafHandle inside = given->between[0] ? with_fresh_start(given) : given;
  const i32 start = i32(opening.size()), end = start + inside->states();
  Leaf leaf;
  for (char byte : opening) leaf.edges.push_back({0, u8(byte), u8(byte), start});
  for (const auto& e : inside->edges) leaf.edges.push_back({e.source + start, e.low, e.high, e.target + start});
  for (i32 s = 0; s < inside->states(); ++s)
    if (inside->label[size_t(s)] >= 0) leaf.edges.push_back({start + s, closing, closing, end});
  leaf.label.assign(size_t(end) + 1, NONE);
  leaf.label.back() = 0;
  leaf.between.assign(size_t(start) + 1, 0);
  leaf.between.insert(leaf.between.end(), inside->between.begin() + 1, inside->between.end());
  leaf.between.push_back(0);
  return interned(std::move(leaf));
}

}  // namespace tractile::automata
