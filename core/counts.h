// What bounds on counts of characters leave possible: see COUNT in `constraints/program/nodes.py`.
#pragma once

#include "leaf.h"

namespace tractile::automata {

// Which states of a counted table can be completed, by the characters read.
struct Alive {
  std::vector<i64> begins;            // the numbers of characters, from 0 upwards, from which on each of the sets holds
  std::vector<std::vector<u8>> sets;  // by state
  i64 last = 0;                       // the most characters that are told apart

  const std::vector<u8>& after(i64 characters) const {
    auto next = std::upper_bound(begins.begin(), begins.end(), characters);
    return sets[size_t(next - begins.begin()) - (next != begins.begin())];
  }

  // How many states there are with their numbers of characters.
  i64 states() const {
    i64 total = 0;
    for (size_t i = 0; i < sets.size(); ++i)
      total += ((i + 1 < sets.size() ? begins[i + 1] : last + 1) - begins[i]) * i64(std::count(sets[i].begin(), sets[i].end(), 1));
    return total;
  }
};

// Return the states that can be completed, by characters read, where a text has `low` to `high` of them (NONE: no upper bound; then
// characters are counted up to `low`, after which every state can be completed).
inline Alive alive(const Leaf& leaf, i64 low, i64 high) {
  const size_t size = leaf.label.size();
  std::vector<i32> end(size + 1, 0), todo;  // of each state the sources of moves into it
  for (const auto& e : leaf.edges) ++end[size_t(e.target) + 1];
  for (size_t s = 0; s < size; ++s) end[s + 1] += end[s];
  std::vector<i32> before(leaf.edges.size()), at(end.begin(), end.end() - 1);
  for (const auto& e : leaf.edges) before[size_t(at[size_t(e.target)]++)] = e.source;
  // the states before those of a set by one character, and those that may end
  auto earlier = [&](const std::vector<u8>& later, bool ends) {
    std::vector<u8> found(size, 0);
    auto mark = [&](i32 state) {
      if (!std::exchange(found[size_t(state)], 1)) todo.push_back(state);
    };
    auto each = [&](size_t target) {
      for (i32 b = end[target]; b < end[target + 1]; ++b) mark(before[size_t(b)]);
    };
    for (size_t s = 0; s < size; ++s) {
      if (ends && leaf.label[s] >= 0) mark(i32(s));
      if (leaf.between[s] && later[s]) each(s);
    }
    while (!todo.empty()) {
      const size_t s = size_t(todo.back());
      todo.pop_back();
      if (!leaf.between[s]) each(s);  // the moves within a character
    }
    return found;
  };
  Alive found;
  found.last = high == NONE ? low : high;
  found.begins = {found.last};
  found.sets.push_back(high == NONE ? std::vector<u8>(size, 1) : earlier(std::vector<u8>(size, 0), true));
  for (i64 read = found.last; read-- > 0;) {
    spend(20 + double(size) / 50);
    std::vector<u8> states = earlier(found.sets.back(), read >= low);
    if (states == found.sets.back()) {
      read = found.begins.back() = read > low ? low : read < low ? 0 : read;  // so it stays, until texts may end no more
    } else {
      found.begins.push_back(read);
      found.sets.push_back(std::move(states));
    }
  }
  std::reverse(found.begins.begin(), found.begins.end());
  std::reverse(found.sets.begin(), found.sets.end());
  return found;
}

// A counted table as a table: a copy of the states for each number of characters.
inline LeafHandle written_out(const Leaf& leaf, const Alive& live, i64 low, i64 high) {
  std::vector<std::vector<i32>> numbers;
  i32 size = 0;
  for (i64 read = 0; read <= live.last; ++read) {
    auto& number = numbers.emplace_back(leaf.label.size(), NONE);
    for (size_t s = 0; s < number.size(); ++s)
      if (live.after(read)[s]) number[s] = size++;
  }
  spend(size / 10.0);
  Leaf made;
  for (i64 read = 0; read <= live.last; ++read) {
    for (size_t s = 0; s < leaf.label.size(); ++s)
      if (numbers[size_t(read)][s] != NONE) made.label.push_back(leaf.label[s] >= 0 && read >= low ? 0 : NONE);
    for (i64 step : {0, 1}) {
      const i64 after = high == NONE ? std::min(read + step, low) : read + step;
      if (after > live.last) continue;
      for (const auto& e : leaf.edges) {
        const i32 source = numbers[size_t(read)][size_t(e.source)], target = numbers[size_t(after)][size_t(e.target)];
        if (leaf.between[size_t(e.target)] == step && source != NONE && target != NONE) made.edges.push_back({source, e.low, e.high, target});
      }
    }
  }
  return interned(std::move(made));
}

}  // namespace tractile::automata
