// A text from a stack to its end where observers look at bytes: some text, first where frames and tables need the fewest bytes; or one of
// the fewest tokens, led by the distance of frames (A*).
//
// Its states are stacks with their environments; of those from which the same may follow one is looked at. So the search ends: with a
// text, or where there is none, or beyond a limit, which is said (LimitPassed).
#pragma once

#include <queue>

#include "bytes.h"
#include "crossing.h"

namespace tractile {

struct Text {
  std::string bytes;
  std::vector<std::pair<size_t, size_t>> items;  // where those begin and end that lie in it
  std::vector<size_t> open;                      // where those end that were open before, the innermost first

  static constexpr i32 ITEM_BEGINS = 256, ITEM_ENDS = 257, TOKEN_ENDS = 258;

  // The text of symbols from one on: bytes, and marks where items begin and end, and tokens.
  static Text of(const std::vector<i32>& symbols, size_t from) {
    Text found;
    std::vector<size_t> begun;  // items
    for (size_t at = from; at < symbols.size(); ++at) {
      if (symbols[at] == TOKEN_ENDS) continue;
      if (symbols[at] == ITEM_BEGINS) {
        begun.push_back(found.bytes.size());
      } else if (symbols[at] < ITEM_BEGINS) {
        found.bytes += char(u8(symbols[at]));
      } else if (begun.empty()) {
        found.open.push_back(found.bytes.size());
      } else {
        found.items.push_back({begun.back(), found.bytes.size()});
        begun.pop_back();
      }
    }
    return found;
  }
};

class Search {
 public:
  // `frames`: the bytes of some text of a stack, where observers take anything.
  Search(Stacks& stacks, Bytes& frames) : stacks_(stacks), observers_(stacks.observers), frames_(frames) {}

  // Of the fewest tokens, which are at most `room`; the arguments of `Crossing::rest`.
  Search(Stacks& stacks, Bytes& frames, const Trie& trie, Crossing& crossing, i32 room, bool spelled)
      : stacks_(stacks), observers_(stacks.observers), frames_(frames), trie_(&trie), crossing_(&crossing), room_(room), spelled_(spelled) {}

  i32 tokens = 0;  // of the text that was found
  u64 taken = 0;  // places that came out of the queue, more where many observers are open

  // Of the text that was found: its symbols, and the states that it leads through, each with the symbols before it, the last first.
  std::vector<i32> symbols;
  std::vector<std::pair<Item, size_t>> way;

  enum Known { UNKNOWN, DEAD, LIVE };

  // Whether some text leads from an item to the end, or to another that is known to be live: the first of `way`. Beyond `most` states it
  // throws. known(item): what is known of it.
  template <class F>
  bool find(Item item, u64 most, F&& known) {
    push({0, 0, item.stack, item.env, NO_TEXT, NONE, NONE, NONE, NONE, 0, 0, 0, 0, false, false});
    while (!queue_.empty()) {
      Queued at = queue_.top();
      queue_.pop();
      taken += 1 + u64(observers_.top(at.env).depth) / 4;  // what each observer takes
      if (taken > most) throw LimitPassed("whether a text has an end takes more than " + std::to_string(most) + " steps to find");
      if (at.others) {  // the other bytes of its move
        Queued next = at;
        next.byte = at.byte < at.high ? at.byte + 1 : at.low;
        --next.others;
        if (!crossing_) next.order = number_++;
        queue_.push(next);
      }
      if (at.byte != NONE) {
        at.env = observers_.read(at.env, u8(at.byte));
        if (at.env == NONE) continue;
        if (at.ends) at.env = observers_.token_end(at.env);
        at.text = then(at.text, at.byte);
        if (at.ends) at.text = then(at.text, Text::TOKEN_ENDS);
        at.byte = NONE;
      }
      const i32 known_by = observers_.alike(at.env, number_is_over(at.stack));
      Index::Key key{u64(u32(at.stack)), u64(u32(known_by)), u64(u32(at.place))};
      if (met_.find(key) != NONE || !tell(at)) continue;
      met_.put(key, 0);
      const Known is = at.stack != NONE ? known(Item{at.stack, at.env}) : at.place ? DEAD : LIVE;
      if (is == DEAD) continue;
      states_.push_back({at.stack, at.env, at.text, at.before});
      if (is == LIVE) return tokens = at.spent, note_way(), true;
      settle(at);
    }
    return false;
  }

 private:
  struct Queued {
    i64 least;  // bytes to the end; or the tokens of the whole text
    u64 order;  // of those with as many: as they were met, so that each has its turn; of tokens first where more is read
    i32 stack, env, text, before;
    i32 byte, low, high, others;  // what is read after `env`, NONE: nothing; the bytes that are read alike, and how many of them are left
    i32 place, spent, read;       // in the token in progress, the tokens before it, and all bytes
    bool ends, is_told;           // whether a token ends with the byte; whether `least` is that of the place itself
    bool operator<(const Queued& o) const { return least != o.least ? least > o.least : order > o.order; }
  };
  struct State {
    i32 stack, env, text, before;  // the state before it; NONE of the first
  };
  static constexpr i32 NO_TEXT = 0;

  // Whether the value of a number at the end of the text can only stay what it is: no digit but 0 may come, or none at all.
  bool number_is_over(i32 stack) {
    if (stack == NONE) return true;
    const Frame f = stacks_.frame(stack);
    if (f.node == JOIN || !stacks_.reads(f.node)) return f.node != JOIN;
    if (stacks_.nodes[f.node].kind == BAG) return Stacks::low(f.reg) == 0;
    const i32 number = stacks_.table_number(f.node, f.reg);
    const Table& t = stacks_.tables[number];
    std::vector<i32> ahead{i32(Stacks::low(f.reg))};
    for (size_t at = 0; at < ahead.size(); ++at)
      for (size_t i = t.begin[ahead[at]]; i < t.begin[ahead[at] + 1]; ++i) {
        const Table::Move& move = t.moves[i];
        if (move.low <= '9' && move.high >= '1') return false;
        for (const char* c = "0.+-eE"; *c; ++c)
          if (move.low <= u8(*c) && u8(*c) <= move.high && !std::count(ahead.begin(), ahead.end(), move.to)) ahead.push_back(move.to);
      }
    return true;
  }

  void push(Queued at) {
    at.order = number_++;
    at.before = i32(states_.size()) - 1;
    if (crossing_) {
      at.is_told = false;
      at.read += at.byte != NONE;
      at.order |= u64(~u32(at.read)) << 32;
    } else {
      at.least = at.stack == NONE ? 0 : frames_.of_stack(at.stack);
      if (at.least >= ENDLESS) return;
      at.least = std::max(at.least, observers_.fewest(at.env));
      if (at.others) at.byte = at.low + i32(mixed(at.order, 0) % u64(at.others + 1));  // any, so that many texts soon differ
    }
    queue_.push(at);
  }

  // Whether a place may come next: its cost is known, and no more than that of those that wait.
  bool tell(Queued& at) {
    if (!crossing_ || std::exchange(at.is_told, true)) return true;
    if (at.place && !spelled_) return true;  // parts with budgets tell more of a token in progress than its place
    const i32 room = room_ - at.spent;
    const i32 least = crossing_->rest(at.stack, at.place, observers_.budgets(at.env), observers_.tables(at.env), room, spelled_);
    if (least > room) return false;
    if (at.spent + least <= at.least) return true;
    at.least = at.spent + least;
    queue_.push(at);
    return false;
  }

  static Queued moved(Queued at, i32 text, i32 stack, i32 env) {
    at.text = text, at.stack = stack, at.env = env;
    at.byte = NONE, at.others = 0, at.ends = false;
    return at;
  }

  void settle(const Queued& at) {
    const Frame f = stacks_.frame(at.stack);
    if (f.node == JOIN) {
      for (i32 each : stacks_.joined(at.stack)) push(moved(at, at.text, each, at.env));
      return;
    }
    const Kind kind = stacks_.nodes[f.node].kind;
    if (stacks_.ends(f.node, f.reg)) {
      i32 outside = kind >= WITHIN ? observers_.leave(at.env) : at.env;
      if (outside != NONE) push(moved(at, kind == ITEM ? then(at.text, Text::ITEM_ENDS) : at.text, f.below, outside));
    }
    if (stacks_.reads(f.node))
      stacks_.rows(f.node, f.reg, [&](u8 low, u8 high, u64 reg) { read(at, low, high, stacks_.push(f.node, reg, f.below)); });
    std::vector<std::pair<i32, u64>> calls;
    stacks_.calls(f.node, f.reg, [&](i32 called, u64 after) { calls.push_back({called, after}); });
    if (calls.empty()) return;
    const i32 env = kind >= WITHIN ? observers_.enter(f.node, at.env) : at.env;
    const i32 text = kind == ITEM ? then(at.text, Text::ITEM_BEGINS) : at.text;
    for (auto [called, after] : calls) push(moved(at, text, stacks_.push(called, stacks_.first(called), stacks_.under(f.node, after, f.below)), env));
  }

  // Push what a byte of `low` to `high` leads to. The environment after the byte is computed only when it is taken out, as few are.
  void read(const Queued& at, int low, int high, i32 stack) {
    Queued next = moved(at, at.text, stack, at.env);
    if (!crossing_) {
      next.low = next.byte = low, next.high = high, next.others = observers_.filters(at.env) || observers_.keeps_texts(at.env) ? high - low : 0;  // else bytes of a move are alike
      return push(next);
    }
    for (i32 child = trie_->first[at.place]; child < trie_->first[at.place + 1]; ++child) {
      next.byte = trie_->byte[child];
      if (next.byte < low || next.byte > high) continue;
      next.place = child;
      if (trie_->first[child] < trie_->first[child + 1]) push(next);
      if (trie_->own_begin[child] == trie_->own_begin[child + 1]) continue;
      Queued end = next;
      end.place = 0, end.ends = true, ++end.spent;
      push(end);
    }
  }

  i32 then(i32 text, i32 symbol) {
    texts_.push_back({text, symbol});
    return i32(texts_.size() - 1);
  }

  void note_way() {
    std::vector<size_t> length(texts_.size(), 0);
    for (size_t text = 1; text < texts_.size(); ++text) length[text] = length[texts_[text].first] + 1;
    for (i32 text = states_.back().text; text != NO_TEXT; text = texts_[text].first) symbols.push_back(texts_[text].second);
    std::reverse(symbols.begin(), symbols.end());
    for (i32 at = i32(states_.size()) - 1; at != NONE; at = states_[at].before)
      way.push_back({{states_[at].stack, states_[at].env}, length[states_[at].text]});
  }

  Stacks& stacks_;
  Observers& observers_;
  Bytes& frames_;
  const Trie* trie_ = nullptr;      // of tokens
  Crossing* crossing_ = nullptr;
  i32 room_ = 0;
  bool spelled_ = false;
  u64 number_ = 0;
  std::vector<std::pair<i32, i32>> texts_{{NONE, NONE}};  // a text, and a byte or a mark after it
  std::vector<State> states_;
  std::priority_queue<Queued> queue_;
  Index met_;
};

}  // namespace tractile
