// Counted repeats: a copy of the automaton for each word, without superfluous paths.
//
// (i, q): i words are read, and q is the state within the next one
//
// Where a word may end or go on by the same character, as in `(\w+\s?){1,50}`, both ways are paths, and a state is reached with every count.
// Once enough words are read, to begin a new word early gains nothing: whatever can be read from there can be read from the state that
// stayed in the word. Such edges are dropped, which often makes the automaton deterministic. ("Pruning" by simulation: Clemente and Mayr
// 2013, where the larger of two targets is kept.)
#pragma once

#include "dfa.h"

namespace tractile::automata {

// The class of each byte: bytes that no move tells apart share one. Classes are numbered by their smallest byte.
inline std::vector<i32> byte_classes(const Nfa& nfa) {
  u64 change[257] = {0}, weight = 0;
  for (size_t i = 0; i < nfa.moves.size(); ++i) {
    const u64 own = mixed(u64(i) + 1);
    change[nfa.moves[i].low] += own;
    change[nfa.moves[i].high + 1] -= own;
  }
  IndexOf<u64> known;
  std::vector<i32> found(256);
  i32 count = 0;
  for (int byte = 0; byte < 256; ++byte) {
    weight += change[byte];
    i32 number = known.find(weight);
    if (number == NONE) known.put(weight, number = count++);
    found[size_t(byte)] = number;
  }
  return found;
}

// Whether a state in the next word does no more than a state in the word before it.
//
// This is a greatest fixpoint. A move of p within its word is met by a move of q within its word, or, where q may end its word, by the
// beginning of the next one, which costs q its lead: then the two are compared at the same count.
class Simulation {
 public:
  // `one`: the automaton of one word. Unless `wanted`, nothing is computed, and a state does no more than itself alone.
  Simulation(const Nfa& one, bool wanted) {
    if (!wanted) return;
    const i64 n = one.states();
    std::vector<i32> klass = byte_classes(one);
    const i64 classes = *std::max_element(klass.begin(), klass.end()) + 1;
    if (!one.is_deterministic() || 4 * n * n * classes > MOST_WORK) return;
    const size_t size = size_t(n) + 1, dead = size_t(n);
    std::vector<i32> next(size * size_t(classes), i32(n));  // by class and state
    for (i32 s = 0; s < n; ++s)
      for (const Move& move : one.row(s))
        for (int byte = move.low; byte <= move.high; ++byte) next[size_t(klass[size_t(byte)]) * size + size_t(s)] = move.to;
    std::vector<u8> ends(size, 0);
    for (i32 state : one.accept) ends[size_t(state)] = 1;
    std::vector<u8> same(size * size);
    for (size_t p = 0; p < size; ++p)
      for (size_t q = 0; q < size; ++q) same[p * size + q] = !ends[p] || ends[q];
    std::vector<u8> lead = same, before_same, before_lead;
    const i64 cells = i64(size) * classes * i64(size);
    for (i64 turn = std::max<i64>(2, MOST_WORK / (2 * cells)); turn-- > 0;) {
      before_same = same;
      before_lead = lead;
      spend(100 + double(cells) / 200);
      for (size_t k = 0; k < size_t(classes); ++k) {
        const i32* move = next.data() + k * size;
        const i32 begin = move[one.start[0]];
        for (size_t p = 0; p < dead; ++p) {
          const u8* row_same = before_same.data() + size_t(move[p]) * size;
          const u8* row_lead = before_lead.data() + size_t(move[p]) * size;
          u8 *here = same.data() + p * size, *ahead = lead.data() + p * size;
          const u8 again = row_same[begin];
          for (size_t q = 0; q < size; ++q) {
            here[q] &= row_same[move[q]];
            ahead[q] &= row_lead[move[q]] | (ends[q] & again);
          }
        }
      }
      if (same == before_same && lead == before_lead) {
        below_ = std::move(lead);
        size_ = size;
        return;
      }
    }
  }

  bool operator()(i32 p, i32 q) const { return size_ ? below_[size_t(p) * size_ + size_t(q)] != 0 : p == q; }

 private:
  std::vector<u8> below_;
  size_t size_ = 0;
};

// The minimal DFA if it has no more states, otherwise the automaton itself.
inline Handle smaller(const Handle& nfa) {
  try {
    Handle small = minimize(nfa, nfa->states() + 50);
    return small->states() <= nfa->states() ? small : nfa;
  } catch (const TooManyStates&) {
  }
  return nfa;
}

// Without the empty word, and with copies of the starts, the last states, to which no move leads.
inline Handle fresh_start(const Nfa& nfa) {
  Nfa made;
  made.first = nfa.first;
  made.moves = nfa.moves;
  for (i32 state : nfa.start) {
    made.start.push_back(made.states());
    made.add(nfa.row(state).begin(), nfa.row(state).end(), 0);
    made.end_row();
  }
  made.accept = nfa.accept;
  return trimmed(made);
}

// The automaton of `low` to `high` words in a row, `high` at least 2.
inline Handle copied(const Handle& nfa, i64 low, i64 high) {
  Handle word = smaller(plain(nfa));
  const std::vector<u8> accepting = marked(word->states(), word->accept);
  if (std::any_of(word->start.begin(), word->start.end(), [&](i32 state) { return accepting[state]; })) low = 0;  // empty words count
  word = fresh_start(*word);
  const Nfa& one = *word;
  if (!one.states()) return low ? empty() : literal("");
  const i64 n = one.states(), count = i64(one.accept.size());
  check_limit(high * n);
  std::vector<Move> begin, row;
  for (i32 state : one.start) begin.insert(begin.end(), one.row(state).begin(), one.row(state).end());
  check_limit(count * i64(begin.size()), TRANSITIONS);
  Simulation below(one, std::any_of(one.accept.begin(), one.accept.end(), [&](i32 end) { return one.row(end).size() > 0; }));
  std::vector<std::vector<Move>> useful(one.accept.size());  // what a move into the next word gains over staying in the word
  std::vector<i32> end_of(size_t(n), NONE);
  i64 gained = 0;
  bool all = true;
  for (size_t i = 0; i < one.accept.size(); ++i) {
    end_of[size_t(one.accept[i])] = i32(i);
    for (const Move& move : begin) {
      int from = move.low;
      for (const Move& stays : one.row(one.accept[i]))
        if (stays.low <= move.high && stays.high >= from && below(move.to, stays.to)) {
          if (from < stays.low) useful[i].push_back({u8(from), u8(stays.low - 1), move.to});
          from = stays.high + 1;
        }
      if (from <= move.high) useful[i].push_back({u8(from), move.high, move.to});
    }
    gained += i64(useful[i].size());
    all = all && useful[i] == begin;
  }
  const i64 early = std::min(std::max<i64>(low - 1, 0), high - 1);  // crossings after which words are still missing
  const i64 some = high * i64(one.moves.size()) + early * count * i64(begin.size()) + (high - early) * gained;
  check_limit(some, TRANSITIONS);
  spend(100 + double(some) / 4);
  auto made = std::make_shared<Nfa>();
  const i64 inner = n - i64(one.start.size());  // the last states; only the first word begins there
  auto first = [&](i64 index) { return i32(index ? n + (index - 1) * inner : 0); };
  for (i64 index = 0; index < high; ++index) {
    const i32 at = first(index), past = first(index + 1);
    for (i32 s = 0; s < (index ? inner : n); ++s) {
      row.clear();
      for (const Move& move : one.row(s)) row.push_back({move.low, move.high, at + move.to});
      if (end_of[size_t(s)] != NONE && index + 1 < high) {
        for (const Move& move : index < early ? begin : useful[size_t(end_of[size_t(s)])]) row.push_back({move.low, move.high, past + move.to});
        merge(row);
      }
      made->add(row.data(), row.data() + row.size(), 0);
      made->end_row();
    }
  }
  made->start = one.start;
  for (i64 index = std::max<i64>(low - 1, 0); index < high; ++index)
    for (i32 end : one.accept) made->accept.push_back(first(index) + end);
  if (!low) made->accept.insert(made->accept.end(), one.start.begin(), one.start.end());
  std::sort(made->accept.begin(), made->accept.end());
  made->trimmed = all;  // each word can begin
  return all ? made : trimmed(*made);
}

}  // namespace tractile::automata
