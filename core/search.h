// A text, or the cheapest, from a stack with open observers to its end: the search of `constraints/engine/crossing.py`.
//
// What observers keep is part of each state, so nothing that is found here is shared by other nodes. It is for the parts of texts
// that WITHIN, APART and ITEM look at; all else is found by frames.
#pragma once

#include <optional>
#include <queue>

#include "bytes.h"
#include "positions.h"
#include "stacks.h"

namespace tractile {

constexpr i32 FEW_ITEMS = 1000, MOST_ITEMS = 20000;  // of one search
constexpr i32 SPARE = 4;  // items still to come that must differ, for which a search is exact

struct Text {  // a cost, and the text that has it
  i32 cost;
  std::string bytes;
  std::vector<std::pair<size_t, size_t>> items;  // where those begin and end that lie in it
  std::vector<size_t> open;                      // where those end that were open before, the innermost first
};

class Search {
 public:
  // By bytes, each of which costs 1, or by tokens.
  // `frames`: the bytes to the end where observers take anything; a search by bytes looks first where they are few.
  Search(Stacks& stacks, const Trie& trie, bool by_tokens, Bytes& frames)
      : stacks_(stacks), observers_(stacks.observers), trie_(trie), by_tokens_(by_tokens), frames_(frames) {}

  u64 taken = 0;  // items

  // A text from a stack to its end, of tokens the cheapest; none if there is none, or none was found.
  std::optional<Text> text(Item item) {
    std::optional<Text> found;
    struct Try {
      i32 spare, most;
    };
    static const std::vector<Try> bytes{{0, FEW_ITEMS}, {SPARE, FEW_ITEMS}, {0, MOST_ITEMS}, {SPARE, MOST_ITEMS}}, tokens{{SPARE, MOST_ITEMS}, {0, MOST_ITEMS}};
    for (Try next : by_tokens_ ? tokens : bytes) {
      clear(next.spare);
      bool ended = searched(item, next.most, found);
      taken += number_ / 8;
      if (found || (by_tokens_ && ended)) return found;
    }
    return std::nullopt;
  }

 private:
  struct Weight {
    i32 cost, length, text;  // the number of a text: a byte, or two texts
  };
  struct Byte {  // what is read after `weight` and `env`
    i32 byte, cost;  // NONE: none
  };
  struct Queued {
    i64 cost, length;  // from the stack on; by bytes: of the whole text as frames complete it, and what is left
    Weight weight;     // from the entry of the activation on
    i32 number;
    i32 act;
    u64 reg;
    i32 place, env;
    Byte last;
    bool operator<(const Queued& o) const {  // the first comes out last
      if (cost != o.cost) return cost > o.cost;
      if (length != o.length) return length > o.length;
      return number > o.number;
    }
  };
  struct Caller {
    i32 act;
    u64 after;
    Weight before;
  };
  struct Exit {
    i32 place, env;
    Weight weight;
  };
  struct Act {
    i32 node, cost, length;  // where it was entered first
    i64 rest;                // the bytes after it
    std::vector<Exit> exits;
    std::vector<Caller> callers;
  };
  static constexpr i32 ROOT = 0;          // the activation of the stack itself
  static constexpr u64 LEFT = ~0ull;      // the register of a frame whose text has ended
  static constexpr i32 NO_TEXT = 0, ITEM_BEGINS = 1, ITEM_ENDS = 2;

  void clear(i32 spare) {
    spare_ = spare;
    acts_.assign(1, {NONE, 0, 0, 0, {}, {}});
    texts_.assign(3, {NONE, NONE});
    queue_ = {};
    index_ = Index(), met_ = Index(), exits_ = Index();
    settled_.clear();
    number_ = 0;
  }

  // False if it takes more than `left` items, or meets three times as many.
  bool searched(Item item, i32 left, std::optional<Text>& found) {
    push({0, 0, NO_TEXT}, ROOT, u64(u32(item.stack)), 0, item.env);
    i32 queued = 3 * left;
    while (!queue_.empty()) {
      Queued at = queue_.top();
      queue_.pop();
      if (at.last.byte != NONE) {
        at.env = observers_.read(at.env, u8(at.last.byte));
        if (by_tokens_ && at.last.cost) at.env = observers_.token_end(at.env);
        texts_.push_back({at.last.byte, NONE});
        at.weight = then(at.weight, {at.last.cost, 1, i32(texts_.size() - 1)});
      }
      Index::Key key{u64(u32(at.act)) | u64(u32(at.place)) << 32, at.reg, u64(u32(observers_.without_texts(at.env)))};
      i32 known = met_.find(key);
      if (known == NONE) {
        met_.put(key, known = i32(settled_.size()));
        settled_.emplace_back();
      }
      if (observers_.is_needless(at.env, settled_[known], spare_, goes_on(at))) continue;
      if (left-- == 0 || number_ > queued) return false;
      ++taken;
      settled_[known].push_back(at.env);
      if (at.act != ROOT) {
        settle(at);
      } else if (i32 stack = i32(u32(at.reg)); stack != NONE) {
        Frame f = stacks_.frame(stack);
        if (f.node == JOIN)
          for (i32 each : stacks_.joined(stack)) push(at.weight, ROOT, u64(u32(each)), at.place, at.env);
        else call(at.weight, ROOT, u64(u32(f.below)), f.node, f.reg, at.place, at.env);
      } else if (at.place == 0) {
        found = written(at.weight);
        return true;
      }
    }
    return true;
  }

  // Whether the frame of an item is in the middle of what it reads itself, so that a number may go on.
  bool goes_on(const Queued& at) const {
    i32 node = acts_[at.act].node;
    u64 reg = at.reg;
    if (at.act == ROOT) {
      if (i32(u32(reg)) == NONE) return false;
      Frame top = stacks_.frame(i32(u32(reg)));
      node = top.node, reg = top.reg;
    }
    if (node == JOIN) return true;
    return reg != LEFT && stacks_.reads(node) && (stacks_.nodes[node].kind != BAG || Stacks::low(reg));
  }

  void push(Weight weight, i32 act, u64 reg, i32 place, i32 env, Byte last = {NONE, 0}) {
    const Act& a = acts_[act];
    i64 left = rest(act, reg);
    if (left >= ENDLESS) return;
    i64 cost = i64(a.cost) + weight.cost + last.cost + left;
    queue_.push({cost, by_tokens_ ? a.length + weight.length + (last.byte != NONE) : left, weight, number_++, act, reg, place, env, last});
  }

  // The bytes from a register of an activation to the end, 0 in a search by tokens.
  i64 rest(i32 act, u64 reg) {
    if (by_tokens_) return 0;
    const Act& a = acts_[act];
    if (act == ROOT) return i32(u32(reg)) == NONE ? 0 : frames_.of_stack(i32(u32(reg)));
    return std::min(ENDLESS, a.rest + (reg == LEFT ? 0 : frames_.of_stack(stacks_.push(a.node, reg, NONE))));
  }

  void settle(const Queued& at) {
    i32 node = acts_[at.act].node;
    bool observes = stacks_.nodes[node].kind >= WITHIN;
    if (at.reg == LEFT || stacks_.ends(node, at.reg)) {
      i32 outside = observes ? observers_.leave(at.env) : at.env;
      bool is_item = stacks_.nodes[node].kind == ITEM;
      if (outside != NONE) exit(is_item ? then(at.weight, {0, 0, ITEM_ENDS}) : at.weight, at.act, at.place, outside);
    }
    if (at.reg == LEFT) return;
    if (stacks_.reads(node)) {
      stacks_.rows(node, at.reg, [&](u8 low, u8 high, u64 after) { read(at, low, high, after); });
    }
    i32 inside = at.env;
    std::vector<std::pair<i32, u64>> calls;
    stacks_.calls(node, at.reg, [&](i32 called, u64 after) { calls.push_back({called, after}); });
    if (observes && !calls.empty()) inside = observers_.enter(node, at.env);
    Weight weight = stacks_.nodes[node].kind == ITEM ? then(at.weight, {0, 0, ITEM_BEGINS}) : at.weight;
    for (auto [called, after] : calls) call(weight, at.act, after, called, stacks_.first(called), at.place, inside);
  }

  // What is read is pushed with the environment before it: few of those that are pushed come out again.
  void read(const Queued& at, int low, int high, u64 after) {
    if (by_tokens_) {
      for (i32 child = trie_.first[at.place]; child < trie_.first[at.place + 1]; ++child) {
        u8 byte = trie_.byte[child];
        if (byte < low || byte > high || (observers_.refuses(at.env) && observers_.read(at.env, byte) == NONE)) continue;
        push(at.weight, at.act, after, child, at.env, {byte, 0});
        if (trie_.own_begin[child] < trie_.own_begin[child + 1]) push(at.weight, at.act, after, 0, at.env, {byte, 1});
      }
      return;
    }
    std::vector<i32> seen;  // environments, but for texts
    size_t most = observers_.beginnings(at.env, spare_);
    bool filters = observers_.filters(at.env);  // otherwise bytes tell nothing but texts apart
    for (int byte = low; byte <= (at.env ? high : low) && (filters || seen.size() < most); ++byte) {
      i32 rest = 0;
      if (observers_.refuses(at.env)) {
        i32 env = observers_.read(at.env, u8(byte));
        if (env == NONE) continue;
        rest = observers_.without_texts(env);
      }
      if (std::count(seen.begin(), seen.end(), rest) >= i64(most)) continue;  // more would be needless
      seen.push_back(rest);
      push(at.weight, at.act, after, 0, at.env, {u8(byte), 1});
    }
  }

  void call(Weight weight, i32 caller, u64 after, i32 node, u64 reg, i32 place, i32 env) {
    Index::Key key{u64(u32(node)) | u64(u32(place)) << 32, reg, u64(u32(env))};
    i32 called = index_.find(key);
    if (called == NONE) {
      index_.put(key, called = i32(acts_.size()));
      acts_.push_back({node, acts_[caller].cost + weight.cost, acts_[caller].length + weight.length, rest(caller, after), {}, {}});
      push({0, 0, NO_TEXT}, called, reg, place, env);
    }
    acts_[called].callers.push_back({caller, after, weight});
    for (const Exit& e : acts_[called].exits) push(then(weight, e.weight), caller, after, e.place, e.env);
  }

  void exit(Weight weight, i32 act, i32 place, i32 env) {
    Index::Key key{u64(u32(act)), u64(u32(place)), u64(u32(env))};
    if (exits_.find(key) != NONE) return;
    exits_.put(key, 0);
    acts_[act].exits.push_back({place, env, weight});
    for (const Caller& c : acts_[act].callers) push(then(c.before, weight), c.act, c.after, place, env);
  }

  Weight then(Weight a, Weight b) {
    Weight both{a.cost + b.cost, a.length + b.length, a.text == NO_TEXT ? b.text : a.text};
    if (a.text != NO_TEXT && b.text != NO_TEXT) {
      texts_.push_back({a.text, b.text});
      both.text = i32(texts_.size() - 1);
    }
    return both;
  }

  Text written(Weight weight) const {
    Text found{weight.cost, "", {}, {}};
    std::vector<size_t> begun;  // items
    std::vector<i32> todo{weight.text};
    while (!todo.empty()) {
      i32 at = todo.back();
      todo.pop_back();
      if (at == NO_TEXT) continue;
      if (at == ITEM_BEGINS) {
        begun.push_back(found.bytes.size());
        continue;
      }
      if (at == ITEM_ENDS) {
        if (begun.empty()) {
          found.open.push_back(found.bytes.size());
        } else {
          found.items.push_back({begun.back(), found.bytes.size()});
          begun.pop_back();
        }
        continue;
      }
      auto [first, second] = texts_[at];
      if (second == NONE) {
        found.bytes += char(u8(first));
      } else {
        todo.push_back(second);
        todo.push_back(first);
      }
    }
    return found;
  }

  Stacks& stacks_;
  Observers& observers_;
  const Trie& trie_;
  bool by_tokens_;
  Bytes& frames_;
  i32 spare_ = 0;
  i32 number_ = 0;
  std::vector<Act> acts_;
  std::vector<std::pair<i32, i32>> texts_;  // two texts, or a byte and NONE
  std::priority_queue<Queued> queue_;
  Index index_, met_, exits_;
  std::vector<std::vector<i32>> settled_;  // environments
};

}  // namespace tractile
