// Upper bounds of distances that see how tokens lie across frames: the fewest tokens that write one of the shortest texts of a stack, or one
// of a few bytes more. Where they are enough, the distance itself (`crossing.h`) need not be sought.
#pragma once

#include "bytes.h"

namespace tractile {

class ShortTexts {
 public:
  // `lengths`: the bytes of the shortest text of a stack.
  ShortTexts(Stacks& stacks, Bytes& lengths, const Trie& trie) : stacks_(stacks), lengths_(lengths), trie_(trie) {}

  // The fewest tokens that write a text of a stack which is at most `more` bytes longer than its shortest; FAR if it takes long to find.
  i32 tokens(i32 stack, i32 more) {
    if (lengths_.of_stack(stack) > MOST_SHORT) return FAR;
    left_ = MOST_TRIED;
    return rest(stack, 0, more);
  }

  size_t bytes() const { return index_.bytes() + 4 * found_.capacity() + moves_bytes_; }

 private:
  struct Move {
    u8 low, high;
    i32 stack, more;  // the bytes that the whole is longer than the shortest
  };

  i32 rest(i32 stack, i32 node, i32 more) {
    Index::Key key{u64(u32(stack)), u64(u32(node)), u64(more)};
    if (i32 known = index_.find(key); known != NONE) return found_[known];
    if (left_-- <= 0) return FAR;
    const std::vector<Move>& moves = moves_of(stack);
    i32 best = lengths_.of_stack(stack) == 0 && node == 0 ? 0 : FAR;
    for (size_t i = 0; i < moves.size(); ++i) {
      const Move move = moves[i];
      if (move.more > more) continue;
      for (i32 child = trie_.first[node]; child < trie_.first[node + 1]; ++child) {
        if (trie_.byte[child] < move.low || trie_.byte[child] > move.high) continue;
        if (trie_.own_begin[child] < trie_.own_begin[child + 1]) best = std::min(best, 1 + rest(move.stack, 0, more - move.more));
        if (trie_.first[child] < trie_.first[child + 1]) best = std::min(best, rest(move.stack, child, more - move.more));
      }
    }
    if (left_ > 0 && index_.find(key) == NONE) {
      index_.put(key, i32(found_.size()));
      found_.push_back(best);
    }
    return best;
  }

  // The bytes that a stack may read next on a way to a short end.
  const std::vector<Move>& moves_of(i32 stack) {
    i32 known = moves_index_.find(u64(u32(stack)));
    if (known != NONE) return moves_[known];
    std::vector<Move> found;
    const i64 least = lengths_.of_stack(stack);
    std::vector<i32> met{stack};
    Index seen;
    seen.put({u64(u32(stack)), 0, 0}, 0);
    auto meet = [&](i32 other) {
      if (other == NONE || seen.find({u64(u32(other)), 0, 0}) != NONE || lengths_.of_stack(other) > least + MOST_MORE) return;
      seen.put({u64(u32(other)), 0, 0}, 0);
      met.push_back(other);
    };
    for (size_t at = 0; at < met.size(); ++at) {
      const Frame f = stacks_.frame(met[at]);
      if (f.node == JOIN) {
        for (i32 each : stacks_.joined(met[at])) meet(each);
        continue;
      }
      if (stacks_.ends(f.node, f.reg)) meet(f.below);
      if (stacks_.reads(f.node))
        stacks_.rows(f.node, f.reg, [&](u8 low, u8 high, u64 reg) {
          const i32 next = stacks_.push(f.node, reg, f.below);
          if (i64 more = lengths_.of_stack(next) + 1 - least; more <= MOST_MORE) found.push_back({low, high, next, i32(more)});
        });
      std::vector<std::pair<i32, u64>> calls;
      stacks_.calls(f.node, f.reg, [&](i32 called, u64 after) { calls.push_back({called, after}); });
      for (auto [called, after] : calls) meet(stacks_.push(called, stacks_.first(called), stacks_.under(f.node, after, f.below)));
    }
    moves_index_.put(u64(u32(stack)), i32(moves_.size()));
    moves_bytes_ += found.size() * sizeof(Move) + 64;
    moves_.push_back(std::move(found));
    return moves_.back();
  }

  Stacks& stacks_;
  Bytes& lengths_;
  const Trie& trie_;
  Index index_;
  std::vector<i32> found_;
  IndexOf<u64> moves_index_;
  Stable<std::vector<Move>> moves_;
  size_t moves_bytes_ = 0;
  i32 left_ = 0;
};

}  // namespace tractile
