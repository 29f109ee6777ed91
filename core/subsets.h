// Subset construction, by ranges of bytes.
//
// {q, r} --a--> {s, t}  becomes a state of its own, and so do the sets that it leads to
#pragma once

#include "trim.h"

namespace tractile::automata {

struct Subsets {
  Lists sets;  // by number the states, ascending; that of the start is 0
  Nfa nfa;     // the moves between them
};

// The ranges of bytes that lead to one set of targets each, in the order of their bytes: f(lowest, highest, targets).
template <class F>
void pieces(std::vector<Move>& moves, std::vector<i32>& targets, F&& f) {
  std::sort(moves.begin(), moves.end());
  std::vector<Move> active;  // the moves whose ranges are not over
  int at = 0;
  auto emit = [&](int end) {
    targets.clear();
    for (const Move& move : active) targets.push_back(move.to);
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    f(u8(at), u8(end), targets);
    at = end + 1;
    active.erase(std::remove_if(active.begin(), active.end(), [&](const Move& move) { return move.high <= end; }), active.end());
  };
  for (size_t i = 0; i <= moves.size();) {
    const int low = i < moves.size() ? moves[i].low : 256;
    while (!active.empty() && at < low) {
      int end = low - 1;
      for (const Move& move : active) end = std::min(end, int(move.high));
      emit(end);
    }
    if (i == moves.size()) break;
    at = low;
    for (; i < moves.size() && moves[i].low == low; ++i) active.push_back(moves[i]);
  }
}

// The sets of states that words lead to; one with a state of `last` (by state, none if empty) has no moves. Throws beyond `limit` sets of at
// least `counted` states, or about a hundred times as much work.
inline void find_subsets(const Nfa& nfa, i64 limit, size_t counted, Subsets& found, const std::vector<u8>& last = {}) {
  std::vector<i32> targets = nfa.start;
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  found.sets.number(targets);
  i64 several = targets.size() >= counted, left = 100 * (limit + 10000);
  std::vector<Move> moves, row;
  for (i32 set = 0; set < i32(found.sets.count()); ++set) {
    moves.clear();
    bool ends = false;
    for (size_t i = 0; i < found.sets.size(set); ++i) {
      const i32 state = found.sets.begin(set)[i];
      ends |= !last.empty() && last[size_t(state)];
      moves.insert(moves.end(), nfa.row(state).begin(), nfa.row(state).end());
    }
    if (ends) moves.clear();
    row.clear();
    pieces(moves, targets, [&](u8 low, u8 high, const std::vector<i32>& to) {
      left -= i64(to.size());
      const size_t known = found.sets.count();
      const i32 target = found.sets.number(to);
      if (found.sets.count() > known) several += to.size() >= counted;
      if (!row.empty() && row.back().to == target && row.back().high + 1 == low) row.back().high = high;
      else row.push_back({low, high, target});
    });
    spend(1 + double(moves.size()) / 2);
    if (several > limit || left < 0) throw TooManyStates(limit);
    found.nfa.add(row.data(), row.data() + row.size(), 0);
    found.nfa.end_row();
  }
}

// The DFA of the same language; `first`: of the texts of which no proper prefix is accepted. Throws beyond `limit` subsets of more than one
// state, or about a hundred times as much work.
inline Handle determinize(const Handle& given, i64 limit = STATES / 5, bool first = false) {
  Handle nfa = plain(given);
  if (!first && nfa->is_deterministic()) return nfa;
  spend(5);
  Subsets found;
  const std::vector<u8> accept = marked(nfa->states(), nfa->accept);
  find_subsets(*nfa, limit, 2, found, first ? accept : std::vector<u8>());
  auto made = std::make_shared<Nfa>(std::move(found.nfa));
  made->start = {0};
  for (i32 set = 0; set < i32(found.sets.count()); ++set)
    if (std::any_of(found.sets.begin(set), found.sets.end(set), [&](i32 state) { return accept[state]; })) made->accept.push_back(set);
  made->trimmed = true;
  return made;
}

// The DFA, or the automaton as it is if that takes more than these units of work or about three times the states. It has no skips.
inline Handle resolved(const Handle& nfa, double units) {
  if (nfa->is_deterministic()) return nfa;
  try {
    Attempt attempt(units);
    return determinize(nfa, MOST_TIMES * nfa->states() + 2000);
  } catch (const TooManyStates&) {
  }
  return nfa;
}

// Several automata read at once, as long as one of them goes on: the moves, and for each state the parts that accept there.
struct Together {
  Nfa nfa;
  std::vector<std::vector<i32>> reads;
};

// Determinize several automata at once. Throws beyond `limit` states.
inline Together together(const std::vector<Handle>& parts, i64 limit) {
  Nfa all;
  std::vector<i32> part_of;  // by state the part that accepts there
  for (size_t i = 0; i < parts.size(); ++i) {
    Handle part = plain(parts[i]);
    const i32 by = all.states(), moves = i32(all.moves.size());
    all.add(part->moves.data(), part->moves.data() + part->moves.size(), by);
    for (size_t s = 1; s < part->first.size(); ++s) all.first.push_back(moves + part->first[s]);
    for (i32 state : part->start) all.start.push_back(by + state);
    part_of.resize(size_t(all.states()), NONE);
    for (i32 state : part->accept) part_of[size_t(by + state)] = i32(i);
  }
  Subsets found;
  find_subsets(all, limit, 1, found);
  Together made{std::move(found.nfa), {}};
  made.reads.resize(found.sets.count());
  for (i32 set = 0; set < i32(found.sets.count()); ++set) {
    auto& reads = made.reads[size_t(set)];
    for (const i32* state = found.sets.begin(set); state != found.sets.end(set); ++state)
      if (part_of[size_t(*state)] != NONE) reads.push_back(part_of[size_t(*state)]);
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  }
  return made;
}

}  // namespace tractile::automata
