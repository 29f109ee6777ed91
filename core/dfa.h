// Products, complements and minimisation of byte automata. Results are trimmed.
#pragma once

#include "subsets.h"

namespace tractile::automata {

// The words that both accept; deterministic if both automata are. Throws beyond `limit` states.
inline Handle intersect(const Handle& one, const Handle& other, i64 limit = STATES) {
  Handle a = plain(one), b = plain(other);
  Nfa both;
  IndexOf<u64> number;
  std::vector<std::pair<i32, i32>> pairs;
  auto place = [&](i32 p, i32 q) {
    const u64 key = u64(p) << 32 | u32(q);
    i32 known = number.find(key);
    if (known == NONE) {
      number.put(key, known = i32(pairs.size()));
      pairs.push_back({p, q});
    }
    return known;
  };
  for (i32 p : a->start)
    for (i32 q : b->start) both.start.push_back(place(p, q));
  std::vector<u8> ends_a = marked(a->states(), a->accept), ends_b = marked(b->states(), b->accept);
  double units = 0;
  for (size_t at = 0; at < pairs.size(); ++at) {
    const auto [p, q] = pairs[at];
    if (ends_a[p] && ends_b[q]) both.accept.push_back(i32(at));
    Nfa::Row theirs = b->row(q);
    const Move* first = theirs.begin();
    const size_t before = both.moves.size();
    for (const Move& move : a->row(p)) {
      while (first != theirs.end() && first->high < move.low) ++first;
      for (const Move* each = first; each != theirs.end() && each->low <= move.high; ++each)
        if (each->high >= move.low) {
          i32 to = place(move.to, each->to);
          both.moves.push_back({std::max(move.low, each->low), std::min(move.high, each->high), to});
        }
    }
    std::sort(both.moves.begin() + i64(before), both.moves.end());
    both.end_row();
    units += 1 + double(both.moves.size() - before) / 4;
    if (i64(pairs.size()) > limit) throw TooManyStates(limit);
    check_limit(i64(both.moves.size()), TRANSITIONS);
    if (units > 100) spend(std::exchange(units, 0));
  }
  spend(units);
  return trimmed(both);
}

// All other byte strings.
inline Handle complement(const Handle& nfa) {
  Handle dfa = determinize(nfa);
  const i32 rest = dfa->states();
  Nfa made;
  for (i32 s = 0; s <= rest; ++s) {
    int next = 0;
    if (s < rest)
      for (const Move& move : dfa->row(s)) {
        if (next < move.low) made.moves.push_back({u8(next), u8(move.low - 1), rest});
        made.moves.push_back(move);
        next = move.high + 1;
      }
    if (next < 256) made.moves.push_back({u8(next), 255, rest});
    made.end_row();
  }
  spend(10 + double(rest + i64(dfa->moves.size())) / 2);
  made.start = dfa->start.empty() ? std::vector<i32>{rest} : dfa->start;
  const std::vector<u8> ends = marked(rest, dfa->accept);
  for (i32 s = 0; s <= rest; ++s)
    if (s == rest || !ends[s]) made.accept.push_back(s);
  return trimmed(made);
}

inline Handle difference(const Handle& a, const Handle& b) { return intersect(a, complement(b)); }

// A number for each state of a DFA: two states have the same one if and only if they accept the same words.
//
// Partition refinement: states are told apart by what they read and the blocks of the targets. Only predecessors of states that changed
// block are looked at again, and of a block's parts the largest keeps its number (Hopcroft 1971).
inline std::vector<i32> equivalence_classes(const Nfa& dfa) {
  const i32 states = dfa.states();
  std::vector<i32> end(size_t(states) + 1, 0), before(dfa.moves.size());
  for (const Move& move : dfa.moves) ++end[size_t(move.to) + 1];
  for (i32 s = 0; s < states; ++s) end[s + 1] += end[s];
  {
    std::vector<i32> at(end.begin(), end.end() - 1);
    for (i32 s = 0; s < states; ++s)
      for (const Move& move : dfa.row(s)) before[size_t(at[move.to]++)] = s;
  }
  std::vector<i32> block(states, 0), touched(states), changed, read;
  for (i32 state : dfa.accept) block[state] = 1;
  for (i32 s = 0; s < states; ++s) touched[s] = s;
  std::vector<i32> size = {states - i32(dfa.accept.size()), i32(dfa.accept.size())};
  std::vector<std::vector<i32>> common(2);  // of each block what its states read
  std::vector<u8> is_touched(states, 0);
  while (!touched.empty()) {
    Lists reads;  // by number the block and what is read
    std::vector<std::vector<i32>> parts;
    std::vector<std::pair<i32, i32>> found;  // a block and a number of `reads`
    for (i32 state : touched) {
      read.assign(1, block[state]);
      i32 last = -1, high = -1;
      for (const Move& move : dfa.row(state)) {
        const i32 to = block[move.to];
        if (to == last && move.low == high + 1) {
          read.back() = high = move.high;
          continue;
        }
        last = to, high = move.high;
        read.insert(read.end(), {move.low, to, high});
      }
      const i32 part = reads.number(read);
      if (part == i32(parts.size())) {
        parts.emplace_back();
        found.push_back({block[state], part});
      }
      parts[size_t(part)].push_back(state);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    changed.clear();
    for (size_t i = 0; i < found.size();) {
      const i32 old = found[i].first;
      size_t next = i, total = 0, most = i;
      for (; next < found.size() && found[next].first == old; ++next) {
        total += parts[size_t(found[next].second)].size();
        if (parts[size_t(found[next].second)].size() > parts[size_t(found[most].second)].size()) most = next;
      }
      if (i32(total) == size[old]) common[old].assign(reads.begin(found[most].second), reads.end(found[most].second));
      for (; i < next; ++i) {
        const i32 part = found[i].second, fresh = i32(size.size());
        if (common[old].size() == reads.size(part) && std::equal(common[old].begin(), common[old].end(), reads.begin(part))) continue;
        for (i32 state : parts[size_t(part)]) block[state] = fresh, changed.push_back(state);
        size[old] -= i32(parts[size_t(part)].size());
        size.push_back(i32(parts[size_t(part)].size()));
        common.emplace_back(reads.begin(part), reads.end(part));
        common.back()[0] = fresh;
      }
    }
    touched.clear();
    for (i32 state : changed)
      for (i32 b = end[state]; b < end[state + 1]; ++b)
        if (!std::exchange(is_touched[before[b]], 1)) touched.push_back(before[b]);
    for (i32 state : touched) is_touched[state] = 0;
    std::sort(touched.begin(), touched.end());
    spend(double(touched.size()) / 2);
  }
  return block;
}

// The minimal DFA of the language, its states in the order of their smallest ones.
inline Handle minimize(const Handle& nfa, i64 limit = STATES / 5) {
  if (nfa->minimal) return nfa;
  Handle dfa = determinize(nfa, limit);
  spend(10 + double(dfa->moves.size()));
  std::vector<i32> block = equivalence_classes(*dfa), number(size_t(dfa->states()) + 2, NONE);
  auto made = std::make_shared<Nfa>();
  std::vector<i32> first;
  for (i32 s = 0; s < dfa->states(); ++s) {
    i32& known = number[size_t(block[s])];
    if (known == NONE) known = i32(first.size()), first.push_back(s);
    block[s] = known;
  }
  std::vector<Move> row;
  for (i32 state : first) {
    row.assign(dfa->row(state).begin(), dfa->row(state).end());
    for (Move& move : row) move.to = block[move.to];
    merge(row);
    made->add(row.data(), row.data() + row.size(), 0);
    made->end_row();
  }
  auto mapped = [&](const std::vector<i32>& states) {
    std::vector<i32> found;
    for (i32 state : states) found.push_back(block[state]);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  };
  made->start = mapped(dfa->start);
  made->accept = mapped(dfa->accept);
  made->trimmed = made->minimal = true;
  return made;
}

// The accepted texts that have no accepted proper prefix.
inline Handle first_matches(const Handle& texts) { return minimize(determinize(texts, STATES / 5, true)); }

// The minimal DFA, or the plain automaton if the DFA would be much larger. A deterministic automaton of more than MANY_STATES states, as of
// counted repeats, stays as it is: minimising it takes long and saves little.
inline Handle simplify(const Handle& given) {
  Handle nfa = plain(given);
  if (nfa->states() > MANY_STATES && nfa->is_deterministic()) return nfa;
  try {
    return minimize(nfa, std::min(3 * i64(nfa->states()) + 2000, i64(50000)));
  } catch (const TooManyStates&) {
  }
  return nfa;
}

// A shortest accepted word, if there is one.
inline std::optional<std::string> shortest(const Handle& nfa) {
  Handle found = plain(nfa);
  const std::vector<u8> ends = marked(found->states(), found->accept);
  std::vector<std::pair<i32, int>> came(size_t(found->states()), {NONE, -1});  // the state before, −1: not reached; the byte
  std::vector<i32> queue = found->start;
  std::vector<u8> seen = marked(found->states(), queue);
  for (size_t at = 0; at < queue.size(); ++at) {
    i32 state = queue[at];
    if (ends[state]) {
      std::string word;
      for (; came[size_t(state)].first != NONE; state = came[size_t(state)].first) word.push_back(char(came[size_t(state)].second));
      std::reverse(word.begin(), word.end());
      return word;
    }
    for (const Move& move : found->row(state))
      if (!std::exchange(seen[move.to], 1)) {
        came[size_t(move.to)] = {state, move.low};
        queue.push_back(move.to);
      }
  }
  return std::nullopt;
}

}  // namespace tractile::automata
