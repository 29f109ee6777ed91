// Byte automata, and what is joined of them: literals, unions, networks. `constraints/automata` describes them.
#pragma once

#include "work.h"

namespace tractile::automata {

// A move reads one byte of a range.
struct Move {
  u8 low, high;
  i32 to;
  bool operator==(const Move& o) const { return low == o.low && high == o.high && to == o.to; }
  bool operator<(const Move& o) const { return low != o.low ? low < o.low : high != o.high ? high < o.high : to < o.to; }
};

using Skip = std::pair<i32, i32>;  // a source and a target, nothing read between them

// An automaton; it does not change once it is made. The moves of a state are merged, and in the order of their bytes.
struct Nfa : std::enable_shared_from_this<Nfa> {
  struct Row {  // the moves of one state
    const Move *first, *last;
    const Move* begin() const { return first; }
    const Move* end() const { return last; }
    size_t size() const { return size_t(last - first); }
  };
  std::vector<i32> first{0};  // by state its first move; one more than there are states
  std::vector<Move> moves;
  std::vector<Skip> skips;
  std::vector<i32> start, accept;
  bool trimmed = false;  // whether it has no skips, and each state is on the way to acceptance
  bool minimal = false;  // whether it is known to be the minimal DFA, trimmed
  mutable std::shared_ptr<Nfa> plain;

  i32 states() const { return i32(first.size()) - 1; }
  Row row(i32 state) const { return {moves.data() + first[state], moves.data() + first[state + 1]}; }
  void end_row() {
    check_limit(i64(moves.size()), INT32_MAX);
    first.push_back(i32(moves.size()));
  }
  void add(const Move* begin, const Move* end, i32 by) {  // the moves of a state, whose targets have moved by so many
    for (; begin != end; ++begin) moves.push_back({begin->low, begin->high, begin->to + by});
  }

  // Whether there is at most one start, and at most one target for each state and byte; there are no skips.
  bool is_deterministic() const {
    for (i32 s = 0; s < states(); ++s)
      for (const Move* move = row(s).begin(); move + 1 < row(s).end(); ++move)
        if (move[1].low <= move->high) return false;
    return start.size() < 2;
  }

  // The state after a byte, NONE if there is none; for deterministic automata.
  i32 after(i32 state, u8 byte) const {
    Row all = row(state);
    const Move* found = std::lower_bound(all.begin(), all.end(), byte, [](const Move& move, u8 b) { return move.high < b; });
    return found != all.end() && found->low <= byte ? found->to : NONE;
  }
};

using Handle = std::shared_ptr<Nfa>;

// By state whether it is one of some.
inline std::vector<u8> marked(i32 states, const std::vector<i32>& some) {
  std::vector<u8> found(states, 0);
  for (i32 state : some) found[state] = 1;
  return found;
}

// Sort the moves of a state by their bytes, and join those to one target that touch or overlap.
inline void merge(std::vector<Move>& row, size_t from = 0) {
  if (row.size() < from + 2) return;
  auto begin = row.begin() + i64(from);
  if (!std::is_sorted(begin, row.end())) std::sort(begin, row.end());
  bool apart = true;  // whether no byte leads to two targets; then only neighbours can touch
  for (auto move = begin; apart && move + 1 != row.end(); ++move) apart = move->high < move[1].low;
  size_t size = from;
  if (apart) {
    for (size_t i = from; i < row.size(); ++i)
      if (size > from && row[size - 1].to == row[i].to && row[size - 1].high + 1 == row[i].low) row[size - 1].high = row[i].high;
      else row[size++] = row[i];
    row.resize(size);
    return;
  }
  IndexOf<u64> last;  // of each target its last places, the latest under the highest turn
  std::vector<std::pair<i32, size_t>> few;
  const bool many = row.size() - from > 32;
  std::vector<size_t> place;
  for (size_t i = from; i < row.size(); ++i) {
    const Move move = row[i];
    size_t* at = nullptr;
    if (many) {
      i32 known = last.find(u64(u32(move.to)));
      if (known == NONE) {
        last.put(u64(u32(move.to)), i32(place.size()));
        place.push_back(SIZE_MAX);
        at = &place.back();
      } else at = &place[size_t(known)];
    } else {
      auto known = std::find_if(few.begin(), few.end(), [&](const auto& each) { return each.first == move.to; });
      if (known == few.end()) known = few.insert(few.end(), {move.to, SIZE_MAX});
      at = &known->second;
    }
    if (*at != SIZE_MAX && move.low <= row[*at].high + 1) row[*at].high = std::max(row[*at].high, move.high);
    else {
      *at = size;
      row[size++] = move;
    }
  }
  row.resize(size);
}

// An arc of a network: what it reads, nothing if there is no automaton.
struct Arc {
  i32 source;
  Handle nfa;
  i32 target;
};

// Join automata as the arcs of a graph; accept what paths from `start` to `accept` read.
inline Handle network(i32 nodes, const std::vector<Arc>& arcs, i32 start, i32 accept) {
  auto made = std::make_shared<Nfa>();
  Nfa& n = *made;
  n.first.assign(size_t(nodes) + 1, 0);
  spend(5);
  for (const Arc& arc : arcs) {
    if (!arc.nfa) {
      n.skips.push_back({arc.source, arc.target});
      continue;
    }
    const Nfa& part = *arc.nfa;
    const i32 by = n.states(), moves = i32(n.moves.size());
    check_limit(i64(by) + part.states());
    check_limit(i64(n.moves.size() + part.moves.size()), INT32_MAX);
    n.add(part.moves.data(), part.moves.data() + part.moves.size(), by);
    for (size_t s = 1; s < part.first.size(); ++s) n.first.push_back(moves + part.first[s]);
    for (auto [from, to] : part.skips) n.skips.push_back({by + from, by + to});
    for (i32 state : part.start) n.skips.push_back({arc.source, by + state});
    for (i32 state : part.accept) n.skips.push_back({by + state, arc.target});
    spend(5 + part.states() / 5.0);
  }
  n.start = {start};
  n.accept = {accept};
  return made;
}

inline Handle union_of(const std::vector<Handle>& parts) {
  std::vector<Arc> arcs;
  for (const auto& part : parts) arcs.push_back({0, part, 1});
  return network(2, arcs, 0, 1);
}

inline Handle concat(const std::vector<Handle>& parts) {
  std::vector<Arc> arcs;
  for (size_t i = 0; i < parts.size(); ++i) arcs.push_back({i32(i), parts[i], i32(i) + 1});
  return network(i32(parts.size()) + 1, arcs, 0, i32(parts.size()));
}

inline Handle star(const Handle& nfa) { return network(1, {{0, nfa, 0}}, 0, 0); }
inline Handle plus(const Handle& nfa) { return network(2, {{0, nfa, 1}, {1, nullptr, 0}}, 0, 1); }
inline Handle optional(const Handle& nfa) { return network(2, {{0, nfa, 1}, {0, nullptr, 1}}, 0, 1); }

inline Handle empty() { return std::make_shared<Nfa>(); }

using Ranges = std::vector<std::pair<int, int>>;  // of bytes

inline Move move_of(std::pair<int, int> range, i32 to) {
  if (range.first < 0 || range.second > 255 || range.first > range.second) throw std::invalid_argument("a range of bytes lies in 0..255");
  return {u8(range.first), u8(range.second), to};
}

// The words whose i-th byte is in one of the i-th ranges.
inline Handle byte_ranges(const std::vector<Ranges>& sequence) {
  check_limit(i64(sequence.size()));
  auto made = std::make_shared<Nfa>();
  for (size_t i = 0; i < sequence.size(); ++i) {
    for (auto range : sequence[i]) made->moves.push_back(move_of(range, i32(i) + 1));
    merge(made->moves, size_t(made->first.back()));
    made->end_row();
  }
  made->end_row();
  made->start = {0};
  made->accept = {i32(sequence.size())};
  return made;
}

inline Handle literal(const std::string& word) {
  check_limit(i64(word.size()));
  auto made = std::make_shared<Nfa>();
  for (size_t i = 0; i < word.size(); ++i) {
    made->moves.push_back({u8(word[i]), u8(word[i]), i32(i) + 1});
    made->end_row();
  }
  made->end_row();
  made->start = {0};
  made->accept = {i32(word.size())};
  return made;
}

// The words of several sequences of byte ranges (see `byte_ranges`), none of them empty, as one automaton.
inline Handle sequences(const std::vector<std::vector<Ranges>>& options) {
  std::vector<std::vector<Move>> rows(2);
  for (const auto& option : options) {
    i32 here = 0;
    for (size_t i = 0; i < option.size(); ++i) {
      const i32 next = i + 1 == option.size() ? 1 : i32(rows.size());
      for (auto range : option[i]) rows[size_t(here)].push_back(move_of(range, next));
      if (next != 1) rows.emplace_back();
      here = next;
    }
    spend(2.0 * double(option.size()));
  }
  auto made = std::make_shared<Nfa>();
  for (auto& row : rows) {
    merge(row);
    made->add(row.data(), row.data() + row.size(), 0);
    made->end_row();
  }
  made->start = {0};
  made->accept = {1};
  return made;
}

// The automaton with other start and accepting states.
inline Handle between(const Nfa& nfa, std::vector<i32> start, std::vector<i32> accept) {
  auto made = std::make_shared<Nfa>();
  made->first = nfa.first;
  made->moves = nfa.moves;
  made->skips = nfa.skips;
  made->start = std::move(start);
  made->accept = std::move(accept);
  return made;
}

// The automaton of edges in any order, their moves merged.
struct Edge {
  i32 source, low, high, target;
  bool operator==(const Edge& o) const { return source == o.source && low == o.low && high == o.high && target == o.target; }
};

inline Handle of_edges(i32 states, const std::vector<Edge>& edges) {
  auto made = std::make_shared<Nfa>();
  std::vector<i32> end(size_t(states) + 1, 0);
  for (const Edge& edge : edges) ++end[size_t(edge.source) + 1];
  for (i32 s = 0; s < states; ++s) end[s + 1] += end[s];
  std::vector<Move> all(edges.size()), row;
  std::vector<i32> at(end.begin(), end.end() - 1);
  for (const Edge& edge : edges) all[size_t(at[edge.source]++)] = {u8(edge.low), u8(edge.high), edge.target};
  for (i32 s = 0; s < states; ++s) {
    row.assign(all.begin() + end[s], all.begin() + end[s + 1]);
    merge(row);
    made->add(row.data(), row.data() + row.size(), 0);
    made->end_row();
  }
  return made;
}

inline Handle reverse(const Nfa& nfa) {
  std::vector<Edge> edges;
  for (i32 s = 0; s < nfa.states(); ++s)
    for (const Move& move : nfa.row(s)) edges.push_back({move.to, move.low, move.high, s});
  auto made = of_edges(nfa.states(), edges);
  for (auto [from, to] : nfa.skips) made->skips.push_back({to, from});
  made->start = nfa.accept;
  made->accept = nfa.start;
  return made;
}

}  // namespace tractile::automata
