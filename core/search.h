// A text from a stack with open observers to its end, by tokens the cheapest: the search of `constraints/engine/crossing.py`.
//
// What observers keep is part of each state, so nothing that is found here is shared by other nodes. It is for the parts of texts
// that WITHIN, APART and ITEM look at; all else is found by frames, and leads the search: A* with the distance where observers take
// anything.
#pragma once

#include <optional>
#include <queue>

#include "bytes.h"
#include "crossing.h"

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
  // By bytes, each of which costs 1; first where `frames` says that few are left where observers take anything.
  Search(Stacks& stacks, const Trie& trie, Bytes& frames) : stacks_(stacks), observers_(stacks.observers), trie_(trie), frames_(frames) {}

  // By tokens, at most `most`; the arguments of `Crossing::rest`.
  Search(Stacks& stacks, const Trie& trie, Bytes& frames, Crossing& crossing, i32 most, bool spelled)
      : stacks_(stacks), observers_(stacks.observers), trie_(trie), frames_(frames), crossing_(&crossing), most_(most), spelled_(spelled) {}

  u64 taken = 0;  // items

  // A text from a stack to its end, of tokens the cheapest; none if there is none, or none was found.
  std::optional<Text> text(Item item) {
    std::optional<Text> found;
    struct Try {
      i32 spare, most;
    };
    static const std::vector<Try> bytes{{0, FEW_ITEMS}, {SPARE, FEW_ITEMS}, {0, MOST_ITEMS}, {SPARE, MOST_ITEMS}}, tokens{{SPARE, MOST_ITEMS}, {0, MOST_ITEMS}};
    for (Try next : crossing_ ? tokens : bytes) {
      clear(next.spare);
      bool ended = searched(item, next.most, found);
      taken += number_ / 8;
      if (found || (crossing_ && ended)) return found;
    }
    return std::nullopt;
  }

 private:
  struct Queued {
    i64 cost, next;  // of the whole text as frames complete it; of equal costs the least `next` comes first
    i32 number, spent, text;
    i32 stack, place, env;
    i32 byte;      // what is read after `env`; NONE: none
    bool ends;     // whether a token ends with it
    bool is_told;  // whether `cost` is that of the place itself, not of one before it
    bool operator<(const Queued& o) const {  // the first comes out last
      if (cost != o.cost) return cost > o.cost;
      if (next != o.next) return next > o.next;
      return number > o.number;
    }
  };
  static constexpr i32 NO_TEXT = 0, ITEM_BEGINS = 256, ITEM_ENDS = 257;

  void clear(i32 spare) {
    spare_ = spare;
    texts_.assign(1, {NONE, NONE});
    queue_ = {};
    met_ = Index();
    settled_.clear();
    number_ = 0;
  }

  // False if it takes more than `left` items, or meets three times as many.
  bool searched(Item item, i32 left, std::optional<Text>& found) {
    push({0, 0, 0, 0, NO_TEXT, NONE, 0, item.env, NONE, false, false}, item.stack, 0, item.env);
    i32 queued = 3 * left;
    while (!queue_.empty()) {
      Queued at = queue_.top();
      queue_.pop();
      if (at.byte != NONE) {
        at.env = observers_.read(at.env, u8(at.byte));
        if (crossing_ && at.ends) at.env = observers_.token_end(at.env);
        at.text = then(at.text, at.byte);
        at.byte = NONE;
      }
      Index::Key key{u64(u32(at.stack)) | u64(u32(at.place)) << 32, 0, u64(u32(observers_.without_texts(at.env)))};
      i32 known = met_.find(key);
      if (known == NONE) {
        met_.put(key, known = i32(settled_.size()));
        settled_.emplace_back();
      }
      if (observers_.is_needless(at.env, settled_[known], spare_, goes_on(at.stack))) continue;
      if (!at.is_told && !tell(at)) continue;
      if (left-- == 0 || number_ > queued) return false;
      ++taken;
      settled_[known].push_back(at.env);
      if (at.stack != NONE) {
        settle(at);
      } else if (at.place == 0) {
        found = written(at);
        return true;
      }
    }
    return true;
  }

  // Whether a place may come next: its cost is known, and no more than that of those that wait.
  bool tell(Queued& at) {
    at.is_told = true;
    if (at.place && !spelled_) return true;  // parts with budgets tell more of a token in progress than its place
    i64 room = most_ - at.spent, least = crossing_->rest(at.stack, at.place, observers_.budgets(at.env), i32(room), spelled_);
    if (least > room) return false;
    if (at.spent + least <= at.cost) return true;
    at.cost = at.spent + least;
    queue_.push(at);
    return false;
  }

  // Whether the frame of an item is in the middle of what it reads itself, so that a number may go on.
  bool goes_on(i32 stack) const {
    if (stack == NONE) return false;
    Frame top = stacks_.frame(stack);
    if (top.node == JOIN) return true;
    return stacks_.reads(top.node) && (stacks_.nodes[top.node].kind != BAG || Stacks::low(top.reg));
  }

  void push(Queued at, i32 stack, i32 place, i32 env, i32 byte = NONE, bool ends = false) {
    at.stack = stack, at.place = place, at.env = env, at.byte = byte, at.ends = ends, at.number = number_++;
    at.spent += ends;
    if (crossing_) {
      at.next -= byte != NONE;
      at.is_told = false;
    } else {
      at.next = stack == NONE ? 0 : frames_.of_stack(stack);
      if (at.next >= ENDLESS) return;
      at.cost = at.spent + at.next;
      at.is_told = true;
    }
    queue_.push(at);
  }

  void settle(const Queued& at) {
    const Frame f = stacks_.frame(at.stack);
    if (f.node == JOIN) {
      for (i32 each : stacks_.joined(at.stack)) push(at, each, at.place, at.env);
      return;
    }
    const Kind kind = stacks_.nodes[f.node].kind;
    if (stacks_.ends(f.node, f.reg)) {
      i32 outside = kind >= WITHIN ? observers_.leave(at.env) : at.env;
      Queued after = at;
      if (kind == ITEM) after.text = then(at.text, ITEM_ENDS);
      if (outside != NONE) push(after, f.below, at.place, outside);
    }
    if (stacks_.reads(f.node)) stacks_.rows(f.node, f.reg, [&](u8 low, u8 high, u64 reg) { read(at, low, high, stacks_.push(f.node, reg, f.below)); });
    std::vector<std::pair<i32, u64>> calls;
    stacks_.calls(f.node, f.reg, [&](i32 called, u64 after) { calls.push_back({called, after}); });
    if (calls.empty()) return;
    Queued inside = at;
    if (kind >= WITHIN) inside.env = observers_.enter(f.node, at.env);
    if (kind == ITEM) inside.text = then(at.text, ITEM_BEGINS);
    for (auto [called, after] : calls) push(inside, stacks_.push(called, stacks_.first(called), stacks_.under(f.node, after, f.below)), at.place, inside.env);
  }

  // What is read is pushed with the environment before it: few of those that are pushed come out again.
  void read(const Queued& at, int low, int high, i32 stack) {
    if (crossing_) {
      for (i32 child = trie_.first[at.place]; child < trie_.first[at.place + 1]; ++child) {
        u8 byte = trie_.byte[child];
        if (byte < low || byte > high || (observers_.refuses(at.env) && observers_.read(at.env, byte) == NONE)) continue;
        if (trie_.first[child] < trie_.first[child + 1]) push(at, stack, child, at.env, byte);
        if (trie_.own_begin[child] < trie_.own_begin[child + 1]) push(at, stack, 0, at.env, byte, true);
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
      push(at, stack, 0, at.env, u8(byte), true);
    }
  }

  i32 then(i32 text, i32 symbol) {
    texts_.push_back({text, symbol});
    return i32(texts_.size() - 1);
  }

  Text written(const Queued& at) const {
    std::vector<i32> symbols;
    for (i32 text = at.text; text != NO_TEXT; text = texts_[text].first) symbols.push_back(texts_[text].second);
    Text found{at.spent, "", {}, {}};
    std::vector<size_t> begun;  // items
    for (; !symbols.empty(); symbols.pop_back()) {
      if (symbols.back() == ITEM_BEGINS) {
        begun.push_back(found.bytes.size());
      } else if (symbols.back() != ITEM_ENDS) {
        found.bytes += char(u8(symbols.back()));
      } else if (begun.empty()) {
        found.open.push_back(found.bytes.size());
      } else {
        found.items.push_back({begun.back(), found.bytes.size()});
        begun.pop_back();
      }
    }
    return found;
  }

  Stacks& stacks_;
  Observers& observers_;
  const Trie& trie_;
  Bytes& frames_;
  Crossing* crossing_ = nullptr;  // by tokens
  i32 most_ = 0;
  bool spelled_ = false;
  i32 spare_ = 0;
  i32 number_ = 0;
  std::vector<std::pair<i32, i32>> texts_;  // a text, and a byte or a mark after it
  std::priority_queue<Queued> queue_;
  Index met_;
  std::vector<std::vector<i32>> settled_;  // environments
};

}  // namespace tractile
