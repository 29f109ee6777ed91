// Tables and nodes, as `constraints/program` has them; see there for what each kind means.
#pragma once

#include "common.h"

namespace tractile {

struct ByteSet {
  u64 bits[4] = {0, 0, 0, 0};
  bool has(u8 byte) const { return bits[byte / 64] >> byte % 64 & 1; }
  bool meets(const ByteSet& o) const { return (bits[0] & o.bits[0]) | (bits[1] & o.bits[1]) | (bits[2] & o.bits[2]) | (bits[3] & o.bits[3]); }
  void put(int low, int high) {
    for (int byte = low; byte <= high; ++byte) bits[byte / 64] |= 1ull << byte % 64;
  }
  bool put(const ByteSet& others) {  // whether it grew
    bool grown = false;
    for (int w = 0; w < 4; ++w) grown |= (others.bits[w] & ~bits[w]) != 0, bits[w] |= others.bits[w];
    return grown;
  }
  void keep(const ByteSet& others) {
    for (int w = 0; w < 4; ++w) bits[w] &= others.bits[w];
  }
};

// A byte automaton; its start is state 0. A deterministic one of moderate size has an array of next states.
struct Table {
  struct Move {
    u8 low, high;
    i32 to;
  };
  i32 states = 0;
  bool deterministic = true;
  std::vector<size_t> begin;  // of the moves of each state, sorted by their lowest byte
  std::vector<Move> moves;
  std::vector<i32> label;
  std::vector<u8> between;
  std::vector<u64> ahead;  // the labels that may still be read, as bits: `words` numbers a state
  i32 words = 1;
  std::vector<i32> fewest;  // bytes to acceptance
  std::vector<i32> labelled;  // by label the first state that has it
  ByteSet first, last;  // the bytes that lead from the start, and to a state with a label
  u8 of_byte[256];          // the class of each byte
  i32 classes = 0;
  // A table that many share and that reads the same but for some texts: see `constraints/program/tables.py`.
  i32 base = NONE;
  std::vector<i32> in_base;   // by state the state there
  std::vector<u8> apart;      // by state whether something is read otherwise from here on
  std::vector<i32> from_base;  // by state of the base the state here from which on all is alike, NONE if there is none
  mutable std::vector<i32> next;  // by state and class, NONE where there is none; made at the first step

  // The size of `next`, 0 if it would be too large.
  size_t cells() const { return deterministic && size_t(states) * classes <= size_t(1) << 22 ? size_t(states) * classes : 0; }
  bool reads(i32 state) const { return begin[state] != begin[state + 1]; }

  // The state after a byte, for deterministic tables.
  i32 step(i32 state, u8 byte) const {
    if (next.empty() && cells()) fill_next();
    if (!next.empty()) return next[size_t(state) * classes + of_byte[byte]];
    size_t low = begin[state], high = begin[state + 1];
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (moves[middle].high < byte) low = middle + 1;
      else high = middle;
    }
    return low < begin[state + 1] && moves[low].low <= byte ? moves[low].to : NONE;
  }

  template <class F>
  void each(i32 state, u8 byte, F&& f) const {
    if (deterministic) {
      i32 to = step(state, byte);
      if (to != NONE) f(to);
      return;
    }
    for (size_t i = begin[state]; i < begin[state + 1] && moves[i].low <= byte; ++i)
      if (byte <= moves[i].high) f(moves[i].to);
  }

  const u64* labels_ahead(i32 state) const { return ahead.data() + size_t(state) * words; }
  bool leads_to(i32 state, i32 label) const { return label / 64 < words && labels_ahead(state)[label / 64] >> label % 64 & 1; }

  void share(i32 other, i32 states_there, std::vector<i32> there, std::vector<u8> otherwise) {
    base = other;
    in_base = std::move(there);
    apart = std::move(otherwise);
    from_base.assign(states_there, NONE);
    for (i32 s = 0; s < states; ++s)
      if (!apart[s] && in_base[s] != NONE) from_base[in_base[s]] = s;
  }

  static Table of(const i32* edges, size_t count, std::vector<i32> label, std::vector<u8> between) {
    Table t;
    t.states = i32(label.size());
    t.label = std::move(label);
    t.between = std::move(between);
    t.begin.assign(t.states + 1, 0);
    for (size_t i = 0; i < count; ++i) ++t.begin[edges[4 * i] + 1];
    for (i32 s = 0; s < t.states; ++s) t.begin[s + 1] += t.begin[s];
    bool cut[257] = {true};
    Before before(t.states, edges, count);
    t.moves.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const i32* e = edges + 4 * i;
      t.moves.push_back({u8(e[1]), u8(e[2]), e[3]});
      cut[e[1]] = cut[e[2] + 1] = true;
      if (i && e[0] == e[-4] && e[1] <= e[-2]) t.deterministic = false;
    }
    for (int b = 0; b < 256; ++b) t.of_byte[b] = u8((t.classes += cut[b]) - 1);
    t.note_ends();
    t.close_labels(before);
    t.measure(before);
    return t;
  }

 private:
  void fill_next() const {
    next.assign(cells(), NONE);
    for (i32 s = 0; s < states; ++s)
      for (size_t i = begin[s]; i < begin[s + 1]; ++i)
        for (int c = of_byte[moves[i].low]; c <= of_byte[moves[i].high]; ++c) next[size_t(s) * classes + c] = moves[i].to;
  }

  // The sources of the edges into each state.
  struct Before {
    std::vector<i32> end, all;
    Before(i32 states, const i32* edges, size_t count) : end(states + 1, 0), all(count) {
      for (size_t i = 0; i < count; ++i) ++end[edges[4 * i + 3] + 1];
      for (i32 s = 0; s < states; ++s) end[s + 1] += end[s];
      for (size_t i = 0; i < count; ++i) all[end[edges[4 * i + 3]]++] = edges[4 * i];
    }
    template <class F>
    void each(i32 state, F&& f) const {
      for (i32 i = state ? end[state - 1] : 0; i < end[state]; ++i) f(all[i]);
    }
  };

  void note_ends() {
    for (const Move& move : moves)
      if (label[move.to] >= 0) last.put(move.low, move.high);
    for (size_t i = begin[0]; i < begin[1]; ++i) first.put(moves[i].low, moves[i].high);
    labelled.assign(*std::max_element(label.begin(), label.end()) + 1, NONE);
    for (i32 s = states; s-- > 0;)
      if (label[s] >= 0) labelled[label[s]] = s;
  }

  void close_labels(const Before& before) {
    words = (i32(labelled.size()) + 63) / 64;
    ahead.assign(size_t(states) * words, 0);
    std::vector<i32> todo;
    for (i32 s = 0; s < states; ++s)
      if (label[s] >= 0) {
        ahead[size_t(s) * words + label[s] / 64] |= 1ull << label[s] % 64;
        todo.push_back(s);
      }
    while (!todo.empty()) {
      i32 s = todo.back();
      todo.pop_back();
      before.each(s, [&](i32 p) {
        bool grown = false;
        for (i32 w = 0; w < words; ++w) {
          u64 both = ahead[size_t(p) * words + w] | ahead[size_t(s) * words + w];
          grown |= both != ahead[size_t(p) * words + w];
          ahead[size_t(p) * words + w] = both;
        }
        if (grown) todo.push_back(p);
      });
    }
  }

  void measure(const Before& before) {
    fewest.assign(states, NONE);
    std::vector<i32> queue;
    for (i32 s = 0; s < states; ++s)
      if (label[s] >= 0) {
        fewest[s] = 0;
        queue.push_back(s);
      }
    for (size_t at = 0; at < queue.size(); ++at)
      before.each(queue[at], [&, ahead = fewest[queue[at]] + 1](i32 p) {
        if (fewest[p] != NONE) return;
        fewest[p] = ahead;
        queue.push_back(p);
      });
  }
};

enum Kind : i32 { LEX, SEQ, ALT, RULE, REPEAT, COUNT, BAG, WITHIN, TOKENS, APART, ITEM };

struct Node {
  Kind kind = SEQ;
  std::vector<i32> parts;
  std::vector<i32> tables;
  i64 low = 0, high = -1;  // high < 0: no limit
  std::vector<u64> required;
  i32 members = 0;
  bool ordered = false;
  bool nothing = false;               // no text is accepted
  std::vector<i64> begins;            // of COUNT: the characters read from which on each set is of the states that can be completed
  std::vector<std::vector<u8>> sets;  // the sets, by state

  // Whether it looks at the bytes that are read inside it, and so does not see them by frames.
  bool looks() const { return kind == WITHIN || kind == APART; }

  // The most that a count is told apart: counts beyond are alike.
  i64 cap() const { return high >= 0 ? high : std::max<i64>(low, 1); }
};

// Whether a node for which `is` holds may be reached from a node; the nodes met until then are left in `reached`.
template <class F>
bool reaches(const Stable<Node>& nodes, i32 node, std::vector<i32>& reached, F&& is) {
  std::vector<u8> seen(nodes.size(), 0);
  reached.assign(1, node);
  seen[node] = 1;
  for (size_t at = 0; at < reached.size(); ++at) {
    const Node& n = nodes[reached[at]];
    if (is(n)) return true;
    for (i32 part : n.parts)
      if (!std::exchange(seen[part], 1)) reached.push_back(part);
  }
  return false;
}

}  // namespace tractile
