// How many bytes complete a text: sums over the frames of a stack.
//
//     LEAST    at least so many bytes: observers take anything
//     BYTES    the bytes of some text
#pragma once

#include <functional>

#include "stacks.h"

namespace tractile {

constexpr i64 ENDLESS = i64(1) << 40;

inline i64 times(i64 count, i64 bytes) { return count && bytes > ENDLESS / count ? ENDLESS : count * bytes; }

class Bytes {
 public:
  enum Of { LEAST, BYTES };

  // `observed`: the bytes of a text of a node that looks at bytes.
  Bytes(Stacks& stacks, Of of, std::function<i64(i32)> observed = nullptr)
      : stacks_(stacks), of_(of), observed_(std::move(observed)) {}

  // The bytes of some text of a stack; of LEAST a lower bound of all of them.
  i64 of_stack(i32 stack) {
    std::vector<i32> above;
    i64 found = 0;
    for (; stack != NONE; stack = stacks_.frame(stack).below) {
      if (stack < i32(known_.size()) && known_[stack] >= 0) {
        found = known_[stack];
        break;
      }
      above.push_back(stack);
    }
    for (; !above.empty(); above.pop_back()) {
      Frame f = stacks_.frame(above.back());
      if (f.node == JOIN) {
        found = ENDLESS;
        for (i32 each : stacks_.joined(above.back())) found = std::min(found, of_stack(each));
      } else {
        found = std::min(ENDLESS, found + of_frame(f.node, f.reg));
      }
      if (above.back() >= i32(known_.size())) known_.resize(above.back() + 1, -1);
      known_[above.back()] = found;
    }
    return found;
  }

  i64 of_frame(i32 node, u64 reg) {
    const Node& n = stacks_.nodes[node];
    switch (n.kind) {
      case LEX: return stacks_.tables[n.tables[0]].fewest[Stacks::low(reg)];
      case COUNT: return counted(node, reg);
      case SEQ: {
        i64 found = 0;
        for (size_t i = reg; i < n.parts.size(); ++i) found += of_node(n.parts[i]);
        return std::min(ENDLESS, found);
      }
      case REPEAT: {
        i64 missing = std::max<i64>(0, n.low - i64(Stacks::high(reg)));
        bool read = Stacks::low(reg);  // the separator
        if (read) missing = std::max<i64>(1, missing);
        i64 separators = missing - (read || Stacks::high(reg) == 0);
        return std::min(ENDLESS, times(missing, of_node(n.parts[0])) + times(std::max<i64>(0, separators), of_node(n.parts[1])));
      }
      case BAG: return bag(node, reg);
      default: {
        if (reg) return 0;
        if (looks(n)) return observer(node);
        i64 best = ENDLESS;
        for (i32 part : n.parts) best = std::min(best, of_node(part));
        return best;
      }
    }
  }

  // The bytes of some member of a bag with a label, its name first.
  i64 of_member(i32 bag, i32 label) {
    i64 name = names(bag)[label];
    return name < 0 ? ENDLESS : name + of_node(stacks_.nodes[bag].parts[label]);
  }

  size_t bytes() const { return 8 * (known_.capacity() + counts_.size() + rests_.capacity()) + counted_index_.bytes(); }

 private:
  bool looks(const Node& n) const { return observed_ && n.looks(); }

  // The bytes of a text of a node. Rules in circles are worked out together: a value that was infinite gets smaller.
  i64 of_node(i32 node) {
    if (nodes_.size() < stacks_.nodes.size()) nodes_.resize(stacks_.nodes.size(), {ENDLESS, false});
    if (nodes_[node].second) return nodes_[node].first;
    std::vector<i32> below{node};
    std::vector<u8> seen(nodes_.size(), 0);
    seen[node] = 1;
    for (size_t at = 0; at < below.size(); ++at) {
      const Node& n = stacks_.nodes[below[at]];
      if (looks(n)) {
        observer(below[at]);  // this may stop: nothing is marked yet
        continue;
      }
      for (i32 part : n.parts)
        if (!nodes_[part].second && !seen[part]) {
          seen[part] = 1;
          below.push_back(part);
        }
    }
    for (i32 each : below) nodes_[each].second = true;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = below.size(); i-- > 0;) {
        i64 found = of_frame(below[i], stacks_.first(below[i]));
        if (found < nodes_[below[i]].first) {
          nodes_[below[i]].first = found;
          changed = true;
        }
      }
    }
    return nodes_[node].first;
  }

  i64 observer(i32 node) {
    if (node >= i32(observers_.size())) observers_.resize(stacks_.nodes.size(), -1);
    if (observers_[node] < 0) observers_[node] = observed_(node);
    return observers_[node];
  }

  // The bytes of a text of a COUNT node from a register on: best-first over (state, characters read), with what is known of each.
  i64 counted(i32 node, u64 reg) {
    const Node& n = stacks_.nodes[node];
    const Table& t = stacks_.tables[n.tables[0]];
    const i64 missing = n.low - i64(Stacks::high(reg)), free = t.fewest[Stacks::low(reg)];
    // a byte ends one character at most, so without more than its bytes a text has no more characters than it may
    if (missing <= 0 && (n.high < 0 || i64(Stacks::high(reg)) + t.fewest[Stacks::low(reg)] <= n.high)) return free;
    if (i32 known = counted_index_.find({u64(u32(node)), reg, 0}); known != NONE) return counts_[known];
    auto least = [&](u64 at) { return std::max<i64>(t.fewest[Stacks::low(at)], n.low - i64(Stacks::high(at))); };
    struct Met {
      u64 reg;
      i64 bytes;  // to it
      i32 before;
    };
    std::vector<Met> met{{reg, 0, NONE}};
    std::vector<std::vector<std::pair<i32, bool>>> todo{{{0, false}}};  // by how many bytes more than expected the whole has; whether all are known
    Index seen;
    const i64 expected = least(reg);
    i64 found = ENDLESS;
    i32 last = NONE;
    for (size_t more = 0; more < todo.size() && found == ENDLESS; ++more)
      while (!todo[more].empty() && found == ENDLESS) {
        auto [number, ends] = todo[more].back();
        todo[more].pop_back();
        const Met at = met[number];
        auto reach = [&](i32 to, i64 whole, bool ended) {
          size_t place = size_t(whole - expected);
          if (place >= todo.size()) todo.resize(place + 1);
          todo[place].push_back({to, ended});
        };
        if (ends) {
          found = expected + i64(more);
          last = number;
          break;
        }
        if (seen.find({at.reg, 0, 0}) != NONE) continue;
        seen.put({at.reg, 0, 0}, 0);
        if (stacks_.ends(node, at.reg)) reach(number, at.bytes, true);
        if (i32 known = counted_index_.find({u64(u32(node)), at.reg, 0}); known != NONE) {
          if (counts_[known] < ENDLESS) reach(number, at.bytes + counts_[known], true);
          continue;
        }
        for (size_t i = t.begin[Stacks::low(at.reg)]; i < t.begin[Stacks::low(at.reg) + 1]; ++i) {
          i32 to = t.moves[i].to;
          i64 count = i64(Stacks::high(at.reg)) + t.between[to];
          if (!stacks_.alive(n, to, count)) continue;
          u64 after = Stacks::pair(std::min(count, n.cap()), u32(to));
          met.push_back({after, at.bytes + 1, number});
          reach(i32(met.size()) - 1, at.bytes + 1 + least(after), false);
        }
      }
    for (; last != NONE; last = met[last].before) keep_counted(node, met[last].reg, found - met[last].bytes);
    if (found == ENDLESS) keep_counted(node, reg, found);
    return found;
  }

  void keep_counted(i32 node, u64 reg, i64 bytes) {
    Index::Key key{u64(u32(node)), reg, 0};
    if (counted_index_.find(key) != NONE) return;
    counted_index_.put(key, i32(counts_.size()));
    counts_.push_back(bytes);
  }

  i64 bag(i32 node, u64 reg) {
    const Node& n = stacks_.nodes[node];
    const i32 state = i32(Stacks::low(reg));
    if (!state) return members(node, reg);
    if (of_ == LEAST) return least_after_name(node, reg);
    // a name in progress: that with which the whole is the shortest
    const auto& allowed = stacks_.labels(node, reg);
    i64 best = ENDLESS, found = 0;
    i32 which = NONE;
    for (auto [label, size] : labels_from(stacks_.table_number(node, reg), state))
      if (allowed[label / 64] >> label % 64 & 1)
        if (i64 all = size + of_node(n.parts[label]); all < ENDLESS) {
          bool missing = label < n.members && (n.required[label / 64] >> label % 64 & 1);
          if (i64 more = missing ? all - of_member(node, label) : all; more < best) best = more, found = all, which = label;
        }
    if (which == NONE) return ENDLESS;
    const u64 after = stacks_.after_member(node, reg, which);
    if (rests_.size() <= Stacks::high(after)) rests_.resize(Stacks::high(after) + 1, -1);
    if (rests_[Stacks::high(after)] < 0) rests_[Stacks::high(after)] = members(node, after);
    return std::min(ENDLESS, found + rests_[Stacks::high(after)]);
  }

  // The least after the end of a name in progress, whichever it is, and for the members that must be there.
  i64 least_after_name(i32 node, u64 reg) {
    const Node& n = stacks_.nodes[node];
    const auto& allowed = stacks_.labels(node, reg);
    const BagState& read = stacks_.bag_read(reg);
    i64 all = 0, best = ENDLESS;
    auto missing = [&](i32 m) { return m < n.members && (n.required[m / 64] >> m % 64 & 1) && !(read.bits[m / 64] >> m % 64 & 1); };
    for (i32 m = 0; m < n.members; ++m)
      if (missing(m)) all += of_member(node, m);
    for (auto [label, size] : labels_from(stacks_.table_number(node, reg), i32(Stacks::low(reg))))
      if (allowed[label / 64] >> label % 64 & 1) best = std::min(best, size + of_node(n.parts[label]) - (missing(label) ? of_member(node, label) : 0));
    return std::min(ENDLESS, std::max<i64>(0, all + best));
  }

  // The bytes of the members that must still come.
  i64 members(i32 node, u64 reg) {
    const Node& n = stacks_.nodes[node];
    const BagState& read = stacks_.bag_read(reg);
    i64 found = 0, count = read.count, again = ENDLESS;  // the bytes of one that may be read any number of times
    std::vector<i64> optional;
    for (i32 label = 0; label < i32(n.parts.size()); ++label) {
      bool seen = label < n.members && (read.bits[label / 64] >> label % 64 & 1);
      if (seen || stacks_.nodes[n.parts[label]].nothing || (n.ordered && label < n.members && label < read.last)) continue;
      if (label < n.members && (n.required[label / 64] >> label % 64 & 1)) found += of_member(node, label), ++count;
      else if (label < n.members && n.low > 0) optional.push_back(of_member(node, label));
      else if (n.low > 0) again = std::min(again, of_member(node, label));
    }
    std::sort(optional.begin(), optional.end());
    for (size_t i = 0; count < n.low && i < optional.size() && optional[i] < again; ++i, ++count) found += optional[i];
    return std::min(ENDLESS, found + times(std::max<i64>(0, n.low - count), again));
  }

  // The bytes of the shortest name of each label, of a first member or of a later one, whichever are more, of LEAST less; −1: none.
  const std::vector<i64>& names(i32 bag) {
    if (i32(names_.size()) <= bag) names_.resize(stacks_.nodes.size());
    std::vector<i64>& found = names_[bag];
    const Node& n = stacks_.nodes[bag];
    if (found.empty()) {
      found.assign(n.parts.size(), -1);
      for (i32 table : n.tables)
        for (auto [label, size] : labels_from(table, 0)) found[label] = of_ == LEAST && found[label] >= 0 ? std::min(found[label], size) : std::max(found[label], size);
    }
    return found;
  }

  // The labels that may be read from a state, each with the fewest bytes to its end.
  const std::vector<std::pair<i32, i64>>& labels_from(i32 number, i32 state) {
    const Table& table = stacks_.tables[number];
    if (i32(labels_at_.size()) <= number) labels_at_.resize(number + 1);
    if (labels_at_[number].empty()) labels_at_[number].resize(table.states, NONE);
    i32& known = labels_at_[number][state];
    if (known != NONE) return labels_[known];
    std::vector<std::pair<i32, i64>> found;
    std::vector<u8> seen(table.states, 0), labelled(64 * table.words, 0);
    std::vector<i32> met{state};
    met.reserve(64);
    seen[state] = 1;
    i64 bytes = 0;
    size_t ahead = 0;  // labels
    for (i32 w = 0; w < table.words; ++w) ahead += size_t(__builtin_popcountll(table.labels_ahead(state)[w]));
    for (size_t at = 0, end = 1; at < met.size() && found.size() < ahead; ++at) {
      if (at == end) ++bytes, end = met.size();
      i32 label = table.label[met[at]];
      if (label >= 0 && !labelled[label]) labelled[label] = 1, found.push_back({label, bytes});
      for (size_t i = table.begin[met[at]]; i < table.begin[met[at] + 1]; ++i)
        if (i32 to = table.moves[i].to; !seen[to]) seen[to] = 1, met.push_back(to);
    }
    known = i32(labels_.size());
    labels_.push_back(std::move(found));
    return labels_.back();
  }

  Stacks& stacks_;
  const Of of_;
  std::function<i64(i32)> observed_;
  std::vector<i64> observers_;  // by node, −1: not yet
  std::vector<i64> known_;  // by stack, −1: not yet
  std::vector<std::pair<i64, bool>> nodes_;
  std::vector<std::vector<i64>> names_;  // by bag
  Index counted_index_;
  std::vector<i64> counts_;
  std::vector<i64> rests_;  // by what a bag has read, −1: not yet
  std::vector<std::vector<i32>> labels_at_;  // by table and state, of `labels_`; NONE: not yet
  Stable<std::vector<std::pair<i32, i64>>> labels_;
};

}  // namespace tractile
