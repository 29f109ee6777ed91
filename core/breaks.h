// Lower bounds of distances: how often a token must end because no token has two bytes beside each other that a text has.
//
// What is left to write has a cost from each byte that was written last: the tokens that begin from here on. It differs by one at most, as
// a token may end anywhere: a `Cost` is that after the end of a token, and the bytes from which it is one less. What a node makes of the
// cost of what follows it is the same for all costs with the same bytes; rules are worked out together, as a least fixed point.
// Counts and observers take texts away, so a bound without them holds as well.
#pragma once

#include "positions.h"
#include "stacks.h"

namespace tractile {

class Breaks {
 public:
  Breaks(Stacks& stacks, const Trie& trie) : stacks_(stacks), trie_(trie) {}

  // No fewer tokens end from a stack on, wherever a token in progress is.
  i32 of_stack(i32 stack) { return cost(stack).tokens; }

  // No fewer tokens end inside what is left of a frame.
  i32 of_frame(i32 node, u64 reg) { return settled(node, reg, {0, ByteSets::all()}).tokens; }

  size_t bytes() const { return sets_.bytes() + entries_.size() * sizeof(Entry) + index_.bytes() + uses_.bytes() + table_bytes_ + 8 * known_.capacity(); }

 private:
  struct Cost {
    i32 tokens;  // FAR: there is no text
    i32 less;    // the number of the set of bytes after which it is one less; 0: none
    bool operator==(const Cost& o) const { return tokens == o.tokens && less == o.less; }
  };
  struct Entry {  // a frame before a cost of 0 tokens
    i32 node;
    u64 reg;
    i32 less;
    Cost found;
    std::vector<i32> users;  // entries
  };

  Cost cost(i32 stack) {
    std::vector<i32> above;
    Cost found{0, 0};
    for (; stack != NONE; stack = stacks_.frame(stack).below) {
      if (stack < i32(known_.size()) && known_[stack].tokens >= 0) {
        found = known_[stack];
        break;
      }
      above.push_back(stack);
    }
    for (; !above.empty(); above.pop_back()) {
      const Frame f = stacks_.frame(above.back());
      if (f.node == JOIN) {
        found = {FAR, 0};
        for (i32 each : stacks_.joined(above.back())) found = either(found, cost(each));
      } else {
        found = settled(f.node, f.reg, found);
      }
      if (above.back() >= i32(known_.size())) known_.resize(above.back() + 1, {-1, 0});
      known_[above.back()] = found;
    }
    return found;
  }

  Cost either(Cost a, Cost b) {
    if (a.tokens != b.tokens) return a.tokens < b.tokens ? a : b;
    if (a.less == b.less) return a;
    ByteSet both = sets_[a.less];
    both.put(sets_[b.less]);
    return {a.tokens, sets_.number(both)};
  }

  static Cost on(Cost frame, Cost after) { return frame.tokens >= FAR || after.tokens >= FAR ? Cost{FAR, 0} : Cost{frame.tokens + after.tokens, frame.less}; }

  Cost settled(i32 node, u64 reg, Cost after) {
    if (after.tokens >= FAR) return after;
    const i32 at = entry(node, reg, after.less);
    if (at == NONE) return on({0, sets_.all()}, after);
    while (!todo_.empty()) {
      const i32 next = todo_.back();
      todo_.pop_back();
      const Cost found = either(entries_[next].found, evaluated(next));
      if (found == entries_[next].found) continue;
      entries_[next].found = found;
      todo_.insert(todo_.end(), entries_[next].users.begin(), entries_[next].users.end());
    }
    return on(entries_[at].found, after);
  }

  // The number of a frame's entry, NONE if there are too many.
  i32 entry(i32 node, u64 reg, i32 less) {
    Index::Key key{u64(u32(node)), reg, u64(less)};
    i32 known = index_.find(key);
    if (known != NONE || entries_.size() >= MOST_ENTRIES) return known;
    index_.put(key, known = i32(entries_.size()));
    entries_.push_back({node, reg, less, {FAR, 0}, {}});
    todo_.push_back(known);
    return known;
  }

  // What is known now of a node before a cost; `user` is evaluated again when it changes.
  Cost ask(i32 user, i32 node, Cost after) {
    if (after.tokens >= FAR) return after;
    ByteSet less = rounded(sets_[after.less]);
    less.keep(stacks_.follow.last(node));
    const i32 at = entry(node, stacks_.first(node), sets_.number(less));
    if (at == NONE) return on({0, sets_.all()}, after);
    Index::Key use{u64(u32(at)), u64(u32(user)), 0};
    if (uses_.find(use) == NONE) uses_.put(use, 0), entries_[at].users.push_back(user);
    const Cost found = on(entries_[at].found, after);
    return stacks_.follow.has_empty_text(node) ? either(found, after) : found;
  }

  Cost evaluated(i32 number) {
    const i32 node = entries_[number].node;
    const u64 reg = entries_[number].reg;
    const Cost after{0, entries_[number].less};
    const Node& n = stacks_.nodes[node];
    switch (n.kind) {
      case LEX:
      case COUNT: return read(n.tables[0], i32(Stacks::low(reg)), after);
      case SEQ: {
        Cost found = after;
        for (size_t i = n.parts.size(); i-- > reg;) found = ask(number, n.parts[i], found);
        return found;
      }
      case REPEAT: {
        const bool read = Stacks::low(reg);  // the separator
        const i64 count = i64(Stacks::high(reg));
        Cost found = after;  // after an item
        for (Cost before{FAR, 0}; !(before == found);) {
          before = found;
          found = either(before, ask(number, n.parts[1], ask(number, n.parts[0], before)));
        }
        i64 missing = std::min(MOST_ALONE, std::max<i64>(read, n.low - count));
        if (!missing) return count ? found : either(after, ask(number, n.parts[0], found));
        for (; missing > 0; --missing) {
          found = ask(number, n.parts[0], found);
          if (missing > 1 || (count && !read)) found = ask(number, n.parts[1], found);
        }
        return found;
      }
      case BAG: return bag(number, node, reg, after);
      default: {
        if (reg) return after;
        Cost found{FAR, 0};
        for (i32 part : n.parts) found = either(found, ask(number, part, after));
        return found;
      }
    }
  }

  // The least cost of the members of a bag that must still come, each with its cheapest name. If a name is in progress, it may be that of
  // the dearest of them, which then costs nothing.
  Cost bag(i32 number, i32 node, u64 reg, Cost after) {
    const Node& n = stacks_.nodes[node];
    const BagState& read = stacks_.bag_read(reg);
    const i32 begun = i32(Stacks::low(reg));
    const bool may_end = begun ? stacks_.table_of(node, reg).label[begun] >= 0 : stacks_.ends(node, reg);
    i32 least = may_end ? 0 : some_text(after, sets_.all()).tokens, missing = 0, most = 0, name = FAR;
    for (i32 table : n.tables) name = std::min(name, this->read(table, 0, {0, sets_.all()}).tokens);
    for (i32 m = 0; m < n.members; ++m) {
      if (!(n.required[m / 64] >> m % 64 & 1) || (read.bits[m / 64] >> m % 64 & 1)) continue;
      const i32 each = std::min(FAR, name + ask(number, n.parts[m], {0, sets_.all()}).tokens);
      missing = std::min(FAR, missing + each);
      most = std::max(most, each);
    }
    if (missing >= FAR) return {FAR, 0};
    return {std::max(least, begun ? missing - most : missing), sets_.all()};
  }

  // Some text that is not empty and ends with one of these bytes.
  Cost some_text(Cost after, i32 last) const { return {after.tokens + !sets_[after.less].meets(sets_[last]), sets_.all()}; }

  // The least cost of reading from a state of a table to one that accepts, and then at cost `after`.
  Cost read(i32 table, i32 state, Cost after) {
    const Table& t = stacks_.tables[table];
    ByteSet last = t.last;
    if (t.states > MOST_READ) {
      const Cost found = t.reads(state) ? some_text(after, sets_.number(last)) : Cost{FAR, 0};
      return t.label[state] >= 0 ? either(found, after) : found;
    }
    last.keep(sets_[after.less]);
    const i32 less = sets_.number(last);
    const u64 key = u64(u32(table)) << 32 | u64(u32(less));
    i32 known = table_index_.find(key);
    if (known == NONE) {
      table_index_.put(key, known = i32(states_.size()));
      states_.push_back(costs(t, less));
      table_bytes_ += sizeof(Cost) * states_.back().size();
    }
    const Cost found = states_[known][state];
    return t.label[state] < 0 ? found : either(found, after);  // here the token may have begun before the table
  }

  // A set with all letters, digits or bytes above ASCII if it has some of them: few sets are left, and bounds as good.
  static ByteSet rounded(ByteSet set) {
    for (auto [low, high] : {std::pair('0', '9'), std::pair('A', 'Z'), std::pair('a', 'z'), std::pair('\x80', '\xFF')}) {
      ByteSet group;
      group.put(u8(low), u8(high));
      if (group.meets(set)) set.put(group);
    }
    return set;
  }

  // By state the least cost of reading to acceptance, before what costs {0, less}.
  std::vector<Cost> costs(const Table& t, i32 less) {
    std::vector<i32> order, tokens(t.states, FAR);
    std::vector<ByteSet> fewer(t.states);
    for (i32 s = 0; s < t.states; ++s) {
      if (t.fewest[s] != NONE) order.push_back(s);
      if (t.label[s] >= 0) tokens[s] = 0, fewer[s] = sets_[less];
    }
    std::sort(order.begin(), order.end(), [&](i32 a, i32 b) { return t.fewest[a] != t.fewest[b] ? t.fewest[a] < t.fewest[b] : a < b; });
    for (bool changed = true; changed;) {
      changed = false;
      for (i32 s : order)
        for (size_t i = t.begin[s]; i < t.begin[s + 1]; ++i) {
          const Table::Move& move = t.moves[i];
          if (tokens[move.to] >= FAR) continue;
          ByteSet range, on;
          range.put(move.low, move.high);
          bool any = false;
          for (int w = 0; w < 4; ++w) any = (on.bits[w] = range.bits[w] & fewer[move.to].bits[w]) || any;
          const i32 all = tokens[move.to] + 1 - any;
          if (all > tokens[s]) continue;
          if (all < tokens[s]) tokens[s] = all, fewer[s] = ByteSet(), changed = true;
          for (int byte = move.low; byte <= move.high; ++byte)
            if (!any || on.has(u8(byte))) changed = fewer[s].put(trie_.before[byte]) || changed;
        }
    }
    std::vector<Cost> found;
    for (i32 s = 0; s < t.states; ++s) found.push_back({tokens[s], sets_.number(fewer[s])});
    return found;
  }

  Stacks& stacks_;
  const Trie& trie_;
  ByteSets sets_;
  Stable<Entry> entries_;
  Index index_, uses_;
  std::vector<i32> todo_;  // entries to be evaluated
  IndexOf<u64> table_index_;
  Stable<std::vector<Cost>> states_;
  std::vector<Cost> known_;  // by stack
  size_t table_bytes_ = 0;
};

}  // namespace tractile
