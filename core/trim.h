// Automata without epsilon transitions and without states that no accepted word visits.
//
// q --a--> r   for every   q --ε--> … --ε--> p --a--> r
#pragma once

#include "nfa.h"

namespace tractile::automata {

// The skips of an automaton, indexed by source; `sources`: those that have any, in the order in which they are first met.
class Onward {
 public:
  std::vector<i32> sources;

  Onward(i32 states, const std::vector<Skip>& skips) : begin_(skips.empty() ? 0 : size_t(states) + 1, 0) {
    for (auto [from, to] : skips)
      if (from != to && begin_[size_t(from) + 1]++ == 0) sources.push_back(from);
    for (size_t s = 1; s < begin_.size(); ++s) begin_[s] += begin_[s - 1];
    if (sources.empty()) return;
    to_.resize(size_t(begin_.back()));
    std::vector<i32> at(begin_.begin(), begin_.end() - 1);
    for (auto [from, to] : skips)
      if (from != to) to_[size_t(at[from]++)] = to;
  }

  i32 count(i32 state) const { return sources.empty() ? 0 : begin_[size_t(state) + 1] - begin_[state]; }
  const i32* begin(i32 state) const { return to_.data() + begin_[state]; }

 private:
  std::vector<i32> begin_, to_;
};

// For each state that does nothing but skip to another that one, of others the state itself: closures stay small where many states meet.
inline std::vector<i32> merged_states(const Nfa& nfa, const Onward& onward, const std::vector<u8>& accept) {
  std::vector<i32> same(nfa.states(), NONE), path;
  for (i32 state : onward.sources) {
    path.clear();
    while (same[state] == NONE) {
      if (onward.count(state) != 1 || nfa.row(state).size() || (accept[state] && !accept[*onward.begin(state)])) break;
      path.push_back(state);
      same[state] = state;  // until the end of the path is known, and for good on a circle
      state = *onward.begin(state);
    }
    if (same[state] != NONE) state = same[state];
    for (i32 each : path) same[each] = state;
  }
  for (i32 s = 0; s < nfa.states(); ++s)
    if (same[s] == NONE) same[s] = s;
  return same;
}

// By state whether it leads to one of `ends`; `order` has all states that are asked about and the targets of theirs.
template <class RowOf>
std::vector<u8> leading(i32 states, const std::vector<i32>& order, const std::vector<i32>& ends, RowOf&& row) {
  std::vector<u8> live = marked(states, ends);
  std::vector<i32> left;
  for (auto state = order.rbegin(); state != order.rend(); ++state) {  // most are before one of their targets
    if (live[*state]) continue;
    auto moves = row(*state);
    if (std::any_of(moves.begin(), moves.end(), [&](const Move& move) { return live[move.to]; })) live[*state] = 1;
    else left.push_back(*state);
  }
  if (left.empty()) return live;
  std::vector<i32> end(size_t(states) + 1, 0);
  for (i32 state : left)
    for (const Move& move : row(state)) ++end[size_t(move.to) + 1];
  for (i32 s = 0; s < states; ++s) end[s + 1] += end[s];
  std::vector<i32> before(size_t(end.back())), at(end.begin(), end.end() - 1), back;
  for (i32 state : left)
    for (const Move& move : row(state)) before[size_t(at[move.to]++)] = state;
  for (i32 s = 0; s < states; ++s)
    if (live[s] && end[s] != end[s + 1]) back.push_back(s);
  for (size_t i = 0; i < back.size(); ++i)
    for (i32 b = end[back[i]]; b < end[back[i] + 1]; ++b)
      if (!std::exchange(live[before[b]], 1)) back.push_back(before[b]);
  return live;
}

// The automaton without skips, each state with the moves of its epsilon closure, and without useless states. The states keep their order.
inline Handle trimmed(const Nfa& nfa) {
  const i32 states = nfa.states();
  Onward onward(states, nfa.skips);
  const bool skips = !onward.sources.empty();
  std::vector<u8> ends = marked(states, nfa.accept), seen(states, 0), inside(skips ? states : 0, 0);
  std::vector<i32> same;
  if (skips) same = merged_states(nfa, onward, ends);
  std::vector<i32> order;
  for (i32 state : nfa.start) order.push_back(skips ? same[state] : state);
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  const std::vector<i32> begin = order;
  for (i32 state : begin) seen[state] = 1;
  // the moves of states that change; those of others stay where they are
  std::vector<Move> own, row;
  std::vector<std::pair<i32, i32>> owned(skips ? states : 0, {NONE, 0});
  auto moves_of = [&](i32 state) -> Nfa::Row {
    if (!skips || owned[state].first == NONE) return nfa.row(state);
    return {own.data() + owned[state].first, own.data() + owned[state].second};
  };
  i64 total = 0;
  std::vector<i32> closure;
  for (size_t at = 0; at < order.size(); ++at) {
    const i32 state = order[at];
    bool changed = false;
    if (skips) {
      row.assign(nfa.row(state).begin(), nfa.row(state).end());
      if (onward.count(state)) {
        changed = true;
        closure.assign(1, state);
        inside[state] = 1;
        bool is_end = ends[state];
        for (size_t i = 0; i < closure.size(); ++i) {
          const i32* to = onward.begin(closure[i]);
          for (i32 n = onward.count(closure[i]); n-- > 0; ++to)
            if (!std::exchange(inside[same[*to]], 1)) closure.push_back(same[*to]);
        }
        for (i32 here : closure) {
          inside[here] = 0;
          is_end |= ends[here] != 0;
          if (here != state) row.insert(row.end(), nfa.row(here).begin(), nfa.row(here).end());
        }
        merge(row);
        ends[state] = is_end;
        spend(1 + double(closure.size()) / 2);
      }
      bool moved = false;
      for (Move& move : row)
        if (same[move.to] != move.to) move.to = same[move.to], moved = true;
      if (moved) merge(row);
      if (changed || moved) {
        owned[state] = {i32(own.size()), i32(own.size() + row.size())};
        own.insert(own.end(), row.begin(), row.end());
      }
    }
    Nfa::Row moves = moves_of(state);
    total += i64(moves.size());
    check_limit(total, TRANSITIONS);
    for (const Move& move : moves)
      if (!std::exchange(seen[move.to], 1)) order.push_back(move.to);
  }
  spend(5 + double(total) / 5);
  std::vector<i32> last;
  for (i32 s = 0; s < states; ++s)
    if (ends[s] && seen[s]) last.push_back(s);
  std::vector<u8> live = leading(states, order, last, moves_of);
  auto made = std::make_shared<Nfa>();
  std::vector<i32> number(states, NONE);
  i32 count = 0;
  for (i32 s = 0; s < states; ++s)
    if (live[s]) number[s] = count++;
  made->first.reserve(size_t(count) + 1);
  for (i32 s = 0; s < states; ++s) {
    if (!live[s]) continue;
    for (const Move& move : moves_of(s))
      if (live[move.to]) made->moves.push_back({move.low, move.high, number[move.to]});
    made->end_row();
  }
  for (i32 state : begin)
    if (live[state]) made->start.push_back(number[state]);
  for (i32 state : last) made->accept.push_back(number[state]);
  made->trimmed = true;
  return made;
}

// The language as a trimmed automaton, made once.
inline Handle plain(const Handle& nfa) {
  if (nfa->trimmed) return nfa;
  Handle known = std::atomic_load(&nfa->plain);
  if (!known) std::atomic_store(&nfa->plain, known = trimmed(*nfa));
  return known;
}

// The automaton with skips in place of its moves on the bytes from `first` to `last`.
inline Handle erased(const Nfa& nfa, int first, int last) {
  auto made = std::make_shared<Nfa>();
  made->skips = nfa.skips;
  std::vector<Move> row;
  for (i32 s = 0; s < nfa.states(); ++s) {
    row.clear();
    for (const Move& move : nfa.row(s)) {
      if (move.low <= last && move.high >= first) made->skips.push_back({s, move.to});
      if (move.low < first) row.push_back({move.low, u8(std::min(int(move.high), first - 1)), move.to});
      if (move.high > last) row.push_back({u8(std::max(int(move.low), last + 1)), move.high, move.to});
    }
    merge(row);
    made->add(row.data(), row.data() + row.size(), 0);
    made->end_row();
  }
  made->start = nfa.start;
  made->accept = nfa.accept;
  return made;
}

// The automaton with a loop on some ranges of bytes at each state.
inline Handle looped(const Handle& given, const Ranges& ranges) {
  Handle nfa = plain(given);
  auto made = std::make_shared<Nfa>();
  std::vector<Move> row;
  for (i32 s = 0; s < nfa->states(); ++s) {
    row.assign(nfa->row(s).begin(), nfa->row(s).end());
    for (auto range : ranges) row.push_back(move_of(range, s));
    merge(row);
    made->add(row.data(), row.data() + row.size(), 0);
    made->end_row();
  }
  made->start = nfa->start;
  made->accept = nfa->accept;
  return made;
}

}  // namespace tractile::automata
