// Stacks of frames, and configurations: the sets of stacks that have read the same text.
//
// A frame is a node and its register; a stack is a frame on another stack (NONE: the bottom, a text that is complete). Beside a
// stack stands its environment: the registers of the observers that are open, which see each byte read above them.
#pragma once

#include "follow.h"
#include "observers.h"

namespace tractile {

constexpr i32 JOIN = -2;                 // the node of a join: its register is the number of a list of stacks

struct Frame {
  i32 node;
  u64 reg;
  i32 below;
  i32 depth;
};

struct Item {  // a stack and its environment
  i32 stack, env;
  bool operator==(const Item& o) const { return stack == o.stack && env == o.env; }
  bool operator<(const Item& o) const { return stack != o.stack ? stack < o.stack : env < o.env; }
};

struct Configuration {
  std::vector<Item> reading;  // stacks whose top frame may read a byte, sorted
  bool accepting;
};

// What a bag has read: members as bits, their number, the largest label.
struct BagState {
  std::vector<u64> bits;
  i64 count;
  i32 last;
};

class Stacks {
 public:
  Stable<Table> tables;
  Stable<Node> nodes;
  Stable<Configuration> configurations;
  Observers observers{tables, nodes};
  Follow follow{tables, nodes};

  const Frame& frame(i32 stack) const { return frames_[stack]; }

  i32 push(i32 node, u64 reg, i32 below) {
    Index::Key key{u64(u32(node)), reg, u64(u32(below))};
    i32 known = stack_index_.find(key);
    if (known != NONE) return known;
    i32 depth = below == NONE ? 1 : frames_[below].depth + 1;
    if (depth > MOST_DEPTH) throw LimitPassed("texts are nested deeper than " + std::to_string(MOST_DEPTH) + " frames");
    frames_.push_back({node, reg, below, depth});
    stack_index_.put(key, i32(frames_.size() - 1));
    return i32(frames_.size() - 1);
  }

  // A stack that goes on as any of these does, which are sorted here.
  i32 join(std::vector<i32>& stacks) {
    std::sort(stacks.begin(), stacks.end());
    stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
    if (stacks.size() == 1) return stacks[0];
    i32 number = joined_.number(stacks);
    i32 found = push(JOIN, u64(number), NONE);
    for (i32 each : stacks)
      if (each != NONE) frames_[found].depth = std::max(frames_[found].depth, frames_[each].depth);
    return found;
  }

  // The stacks of a join.
  std::vector<i32> joined(i32 join) const {
    i32 number = i32(frames_[join].reg);
    return {joined_.begin(number), joined_.end(number)};
  }

  // ---------------------------------------------------------------- registers

  // Of COUNT: state and characters; of REPEAT: items and whether a separator was read; of BAG: what was read and the names' state.
  static u64 pair(u64 high, u64 low) { return high << 32 | low; }
  static u64 high(u64 reg) { return reg >> 32; }
  static u32 low(u64 reg) { return u32(reg); }

  u64 first(i32 node) {
    const Node& n = nodes[node];
    return n.kind == BAG ? pair(bag_state(node, {std::vector<u64>(n.required.size()), 0, NONE}), 0) : 0;
  }

  const BagState& bag_read(u64 reg) const { return bag_states_[high(reg)]; }

  bool complete(const Node& bag, const BagState& read) const {
    if (read.count < bag.low) return false;
    for (size_t w = 0; w < read.bits.size(); ++w)
      if (bag.required[w] & ~read.bits[w]) return false;
    return true;
  }

  // The labels that a bag allows, as bits: after a member with one of them what must be there can still come, and as many as must.
  const std::vector<u64>& labels(i32 node, u64 reg) {
    auto& known = allowed_[high(reg)];
    if (!known.empty()) return known;
    const Node& bag = nodes[node];
    const BagState& read = bag_read(reg);
    known.assign(bag.parts.size() / 64 + 1, 0);
    if (bag.high >= 0 && read.count >= bag.high) return known;
    bool any_others = false;  // of which as many may come as are wanted
    for (i32 other = bag.members; other < i32(bag.parts.size()); ++other) any_others |= !nodes[bag.parts[other]].nothing;
    i32 first = NONE;            // of the members that must still come
    i64 missing = 0, later = 0;  // members that must still come, and that may
    auto may = [&](i32 m) { return !has(read.bits, m) && !nodes[bag.parts[m]].nothing && m >= read.last; };
    for (i32 m = 0; m < bag.members; ++m) {
      if (has(bag.required, m) && !has(read.bits, m) && !missing++) first = m;
      later += may(m);
    }
    auto allow = [&](i32 label, i64 still, i64 rest) {
      if (bag.high >= 0 && read.count + 1 + still > bag.high) return;
      if (read.count + 1 + rest >= bag.low || any_others) known[label / 64] |= 1ull << label % 64;
    };
    i64 passed = 0;
    for (i32 m = 0; m < bag.members; ++m) {
      if (!may(m)) continue;
      ++passed;
      if (!bag.ordered || first == NONE || first >= m) allow(m, missing - has(bag.required, m), later - (bag.ordered ? passed : 1));
    }
    for (i32 other = bag.members; other < i32(bag.parts.size()); ++other)
      if (!nodes[bag.parts[other]].nothing && (!bag.ordered || first == NONE || first >= read.last)) allow(other, missing, later);
    return known;
  }

  // Whether a path from a state of the table of names leads to one of `labels`, a bit set.
  bool leads_on(const Table& table, i32 state, const std::vector<u64>& labels) const {
    const u64* ahead = table.labels_ahead(state);
    for (i32 w = 0; w < table.words && w < i32(labels.size()); ++w)
      if (ahead[w] & labels[w]) return true;
    return false;
  }

  u64 after_member(i32 node, u64 reg, i32 label) {
    const u64 key = pair(high(reg), u32(label));
    if (i32 known = members_.find(key); known != NONE) return pair(u64(known), 0);
    const Node& bag = nodes[node];
    BagState read = bag_read(reg);
    if (label < bag.members) read.bits[label / 64] |= 1ull << label % 64;
    read.count = std::min(read.count + 1, bag.cap());
    if (bag.ordered && label < bag.members) read.last = label;
    const u64 found = bag_state(node, read);
    members_.put(key, i32(found));
    return pair(found, 0);
  }

  // The register of a bag that has read a member, without the members that it need not have: what is missing is the same.
  u64 without_optional(i32 node, u64 reg) {
    const u64 key = pair(high(reg), u32(NONE));
    if (i32 known = members_.find(key); known != NONE) return pair(u64(known), low(reg));
    const Node& bag = nodes[node];
    BagState read = bag_read(reg);
    i64 missing = 0;
    for (size_t w = 0; w < read.bits.size(); ++w) {
      read.bits[w] &= bag.required[w];
      missing += __builtin_popcountll(bag.required[w] & ~read.bits[w]);
    }
    u64 found = high(reg);
    if (!bag.ordered && bag.high < 0 && read.count && read.count + missing >= bag.low) {
      read.count = std::max<i64>(1, bag.low - missing);
      found = bag_state(node, read);
    }
    members_.put(key, i32(found));
    return pair(found, low(reg));
  }

  // Split the members that a bag still lacks in two: the register of a bag that lacks only the first of them, and of one that lacks only
  // the others, `least` or more. The first are an aligned block of numbers, so that bags that lack other members share it. The register
  // itself, twice, if order or an upper bound of members matters, or if too few are missing.
  std::pair<u64, u64> divided(i32 node, u64 reg, size_t least) {
    const Node& bag = nodes[node];
    const BagState& read = bag_read(reg);
    std::vector<i32> missing;
    for (i32 m = 0; m < bag.members; ++m)
      if (has(bag.required, m) && !has(read.bits, m)) missing.push_back(m);
    if (bag.ordered || bag.high >= 0 || !read.count || missing.size() <= least || read.count + i64(missing.size()) < bag.low) return {reg, reg};
    size_t some = 0, next = 0;
    for (i32 alike = 1; next + least <= missing.size(); alike *= 2) {
      some = next;
      next = std::lower_bound(missing.begin(), missing.end(), (missing[0] / alike + 1) * alike) - missing.begin();
    }
    auto lacking = [&](size_t begin, size_t end) {
      BagState state{bag.required, std::max<i64>(1, bag.low - i64(end - begin)), NONE};
      for (size_t i = begin; i < end; ++i) state.bits[missing[i] / 64] &= ~(1ull << missing[i] % 64);
      return pair(bag_state(node, state), 0);
    };
    return {lacking(0, some), lacking(some, missing.size())};
  }

  bool alive(const Node& count, i32 state, i64 read) const {
    if (count.high >= 0 && read > count.high) return false;
    return count.sets[std::upper_bound(count.begins.begin(), count.begins.end(), read) - count.begins.begin() - 1][state];
  }

  // ---------------------------------------------------------------- frames that read

  bool reads(i32 node) const { return nodes[node].kind == LEX || nodes[node].kind == COUNT || nodes[node].kind == BAG; }

  // The number of the table that a frame reads; a bag has one for its first member and one for later ones.
  i32 table_number(i32 node, u64 reg) const {
    const Node& n = nodes[node];
    return n.tables[n.kind == BAG && bag_read(reg).count > 0];
  }

  const Table& table_of(i32 node, u64 reg) const { return tables[table_number(node, reg)]; }

  // Whether a frame may come to a state of its table after so many characters more; `after` is its register then.
  bool goes_on(i32 node, u64 reg, const Table& table, i32 state, i64 characters, u64& after) {
    const Node& n = nodes[node];
    if (n.kind == LEX) {
      after = u64(u32(state));
      return true;
    }
    if (n.kind == COUNT) {
      i64 count = i64(high(reg)) + characters;
      after = pair(std::min(count, n.cap()), u32(state));
      return alive(n, state, count);
    }
    after = pair(high(reg), u32(state));
    return leads_on(table, state, labels(node, reg));
  }

  // f(register) for each register of a frame after a byte.
  template <class F>
  void read(i32 node, u64 reg, u8 byte, F&& f) {
    const Table& t = table_of(node, reg);
    t.each(i32(low(reg)), byte, [&](i32 to) {
      if (u64 after; goes_on(node, reg, t, to, t.between[to], after)) f(after);
    });
  }

  // f(lowest byte, highest byte, register after) for each move of a frame.
  template <class F>
  void rows(i32 node, u64 reg, F&& f) {
    const Table& t = table_of(node, reg);
    for (size_t i = t.begin[low(reg)]; i < t.begin[low(reg) + 1]; ++i) {
      const Table::Move& move = t.moves[i];
      if (u64 after; goes_on(node, reg, t, move.to, t.between[move.to], after)) f(move.low, move.high, after);
    }
  }

  // ---------------------------------------------------------------- calls and ends

  // Whether a frame may end here.
  bool ends(i32 node, u64 reg) const {
    const Node& n = nodes[node];
    switch (n.kind) {
      case LEX: return tables[n.tables[0]].label[low(reg)] >= 0;
      case COUNT: return tables[n.tables[0]].label[low(reg)] >= 0 && i64(high(reg)) >= n.low;
      case SEQ: return reg == n.parts.size();
      case REPEAT: return !low(reg) && i64(high(reg)) >= n.low;
      case BAG: return low(reg) == 0 && complete(n, bag_read(reg));
      default: return reg == 1;
    }
  }

  // f(node called, register after it) for each call of a frame.
  template <class F>
  void calls(i32 node, u64 reg, F&& f) {
    const Node& n = nodes[node];
    switch (n.kind) {
      case SEQ:
        if (reg < n.parts.size()) f(n.parts[reg], reg + 1);
        break;
      case ALT:
        if (reg == 0)
          for (i32 option : n.parts) f(option, u64(1));
        break;
      case REPEAT: {
        i64 count = high(reg);
        u64 more = pair(std::min(count + 1, n.cap()), 0);
        if (low(reg)) f(n.parts[0], more);
        else if (n.high < 0 || count < n.high) {
          bool apart = count > 0 && !is_empty(n.parts[1]);
          if (apart) f(n.parts[1], pair(count, 1));
          else f(n.parts[0], more);
        }
        break;
      }
      case BAG: {
        i32 label = table_of(node, reg).label[low(reg)];
        if (label >= 0 && low(reg) && (labels(node, reg)[label / 64] >> label % 64 & 1)) f(n.parts[label], after_member(node, reg, label));
        break;
      }
      case LEX:
      case COUNT: break;
      default:
        if (reg == 0) f(n.parts[0], u64(1));
    }
  }

  // Whether nothing is left of a frame but its end.
  bool over(i32 node, u64 reg) {
    if (nodes[node].kind >= WITHIN || !ends(node, reg)) return false;
    if (nodes[node].kind == BAG) return !leads_on(table_of(node, reg), 0, labels(node, reg));
    if (reads(node)) return !table_of(node, reg).reads(i32(low(reg)));
    bool more = false;
    calls(node, reg, [&](i32, u64) { more = true; });
    return !more;
  }

  // The stack to which a call returns: the caller's frame is kept only if something is left of it.
  i32 under(i32 caller, u64 after, i32 below) { return over(caller, after) ? below : push(caller, after, below); }

  // ---------------------------------------------------------------- configurations

  i32 start(i32 node) {
    std::vector<Item> items{{push(node, first(node), NONE), 0}};
    return closed(items);
  }

  // The configuration of these stacks and all that they call; NONE if there is none.
  i32 closed(std::vector<Item>& todo) {
    std::vector<Item> reading;
    bool accepting = false;
    Index seen;
    auto meet = [&](Item item, std::vector<Item>& list) {
      Index::Key key{u64(u32(item.stack)), u64(u32(item.env)), 0};
      if (seen.find(key) != NONE) return;
      seen.put(key, 0);
      list.push_back(item);
    };
    struct Called {
      i32 rank, node, env;
      std::vector<i32> under;  // the stacks to return to
    };
    std::vector<Called> pending;
    std::vector<Item> list;
    for (Item item : todo) meet(item, list);
    for (size_t met = 0; !list.empty() || !pending.empty(); ++met) {
      if (met > MOST_FOLLOWED) throw LimitPassed("one text has too many readings");
      if (list.empty()) {  // callers before those that they call
        size_t next = 0;
        for (size_t i = 1; i < pending.size(); ++i)
          if (pending[i].rank > pending[next].rank) next = i;
        Called call = std::move(pending[next]);
        pending.erase(pending.begin() + next);
        meet({push(call.node, first(call.node), join(call.under)), call.env}, list);
        continue;
      }
      Item item = list.back();
      list.pop_back();
      if (item.stack == NONE) {
        accepting = true;
        continue;
      }
      Frame f = frames_[item.stack];
      if (f.node == JOIN) {
        for (i32 stack : joined(item.stack)) meet({stack, item.env}, list);
        continue;
      }
      const Node& n = nodes[f.node];
      if (reads(f.node) && may_read(f.node, f.reg)) reading.push_back(item);
      if (ends(f.node, f.reg)) {
        i32 env = n.kind >= WITHIN ? observers.leave(item.env) : item.env;
        if (env != NONE) meet({f.below, env}, list);
      }
      calls(f.node, f.reg, [&](i32 node, u64 after) {
        i32 env = n.kind >= WITHIN ? observers.enter(f.node, item.env) : item.env;
        i32 under = this->under(f.node, after, f.below);
        Index::Key key{u64(u32(node)), u64(u32(under)), 1 + u64(u32(env))};
        if (seen.find(key) != NONE) return;
        seen.put(key, 0);
        for (Called& call : pending)
          if (call.node == node && call.env == env) {
            call.under.push_back(under);
            return;
          }
        pending.push_back(Called{rank(node), node, env, std::vector<i32>{under}});
      });
    }
    return numbered(std::move(reading), accepting);
  }

  // The configuration of stacks that may read a byte; NONE if there are none and the text may not end.
  i32 numbered(std::vector<Item> reading, bool accepting) {
    if (reading.empty() && !accepting) return NONE;
    std::sort(reading.begin(), reading.end());
    reading.erase(std::unique(reading.begin(), reading.end()), reading.end());
    std::vector<i32> key;
    key.reserve(2 * reading.size() + 1);
    for (Item item : reading) {
      key.push_back(item.stack);
      key.push_back(item.env);
    }
    if (accepting) key.push_back(NONE);
    i32 number = config_lists_.number(key);
    if (number == i32(configurations.size())) configurations.push_back({std::move(reading), accepting});
    return number;
  }

  bool may_read(i32 node, u64 reg) {
    const Table& t = table_of(node, reg);
    u64 after;
    return std::any_of(t.moves.begin() + t.begin[low(reg)], t.moves.begin() + t.begin[low(reg) + 1],
                       [&](const Table::Move& move) { return goes_on(node, reg, t, move.to, t.between[move.to], after); });
  }

  // The configuration after a byte, NONE if it may not come.
  i32 step(i32 configuration, u8 byte) {
    const u64 key = u64(configuration) << 8 | byte;
    i32 known = steps_.find(key);
    if (known != NONE) return known - 1;
    i32 found = stepped(configurations[configuration].reading, byte);
    steps_.put(key, found + 1);
    return found;
  }

  i32 stepped(const std::vector<Item>& reading, u8 byte) {
    std::vector<Item> after;
    for (Item item : reading) {
      Frame f = frames_[item.stack];
      i32 env = observers.read(item.env, byte);
      if (env == NONE) continue;
      read(f.node, f.reg, byte, [&](u64 reg) { after.push_back({push(f.node, reg, f.below), env}); });
    }
    return after.empty() ? NONE : closed(after);
  }

  // The configuration after the end of a token.
  i32 token_end(i32 configuration) {
    if (configuration == NONE) return NONE;
    const Configuration& before = configurations[configuration];
    if (std::none_of(before.reading.begin(), before.reading.end(), [](Item item) { return item.env; })) return configuration;
    std::vector<Item> reading = before.reading;
    for (Item& item : reading) item.env = observers.token_end(item.env);
    return numbered(std::move(reading), configurations[configuration].accepting);
  }

  size_t bytes() const {
    return frames_.capacity() * sizeof(Frame) + stack_index_.bytes() + joined_.bytes() + config_lists_.bytes() + steps_.bytes() +
           observers.bytes() + members_.bytes() + configurations.size() * 80 + bag_states_.size() * 120;
  }

 private:
  static bool has(const std::vector<u64>& bits, i32 at) { return bits[at / 64] >> at % 64 & 1; }

  bool is_empty(i32 node) const { return nodes[node].kind == SEQ && nodes[node].parts.empty(); }

  // The most calls in a row before a byte, by node: those who call come before those that they call.
  i32 rank(i32 node) {
    if (node >= i32(ranks_.size())) ranks_.resize(nodes.size(), 0);
    if (ranks_[node]) return ranks_[node];
    ranks_[node] = 1;
    i32 found = 1;
    calls(node, first(node), [&](i32 called, u64) { found = std::max(found, 1 + rank(called)); });
    return ranks_[node] = found;
  }

  u64 bag_state(i32 node, const BagState& read) {
    std::vector<i32> key{node, i32(read.count), read.last};
    for (u64 word : read.bits) {
      key.push_back(i32(u32(word)));
      key.push_back(i32(word >> 32));
    }
    i32 number = bag_lists_.number(key);
    if (number == i32(bag_states_.size())) {
      bag_states_.push_back(read);
      allowed_.emplace_back();
    }
    return u64(number);
  }

  std::vector<Frame> frames_;
  Index stack_index_;
  IndexOf<u64> steps_;  // by configuration and byte
  IndexOf<u64> members_;  // what a bag has read, by what it had before and a member's label; NONE: without those that may be absent
  Lists config_lists_, bag_lists_, joined_;
  std::vector<i32> ranks_;
  Stable<BagState> bag_states_;
  Stable<std::vector<u64>> allowed_;
};

}  // namespace tractile
