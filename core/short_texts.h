// Upper bounds of distances that see how tokens lie across frames: the fewest tokens that write one of the shortest texts of a stack, or one
// of a few bytes more. Where they are enough, the distance itself (`crossing.h`) need not be sought.
#pragma once

#include "crossing.h"

namespace tractile {

class ShortTexts {
 public:
  // `lengths`: gives the bytes of the shortest text of a stack. `crossing`: gives a lower bound of its tokens.
  ShortTexts(Stacks& stacks, Bytes& lengths, Crossing& crossing, const Trie& trie) : stacks_(stacks), lengths_(lengths), crossing_(crossing), trie_(trie) {}

  // A number of tokens, at most `most`, that write a text of a stack at most `more` bytes longer than its shortest; else one above `most`.
  i32 tokens(i32 stack, i32 more, i32 most) {
    if (lengths_.of_stack(stack) > MOST_SHORT) return FAR;
    left_ = MOST_TRIED;
    return rest(stack, Positions::ROOT, more, most);
  }

  size_t bytes() const { return index_.bytes() + sizeof(Known) * known_.capacity() + moves_bytes_; }

 private:
  struct Move {
    u8 low, high;
    i32 stack, more;  // the bytes that the whole is longer than the shortest
  };
  struct Known {
    i32 found, none;  // tokens that are enough, and that are not
  };

  // As `tokens`, with a token in progress at a node of the trie; a value above `most` says only that `most` were not found to be enough.
  i32 rest(i32 stack, i32 node, i32 more, i32 most) {
    const i32 least = crossing_.least(stack);
    if (left_ <= 0 || least > most) return FAR;
    if (node == Positions::ROOT && lengths_.of_stack(stack) == 0) return 0;
    Index::Key key{u64(u32(stack)), u64(u32(node)), u64(more)};
    i32 at = index_.find(key);
    if (at == NONE) {
      index_.put(key, at = i32(known_.size()));
      known_.push_back({FAR, NONE});
    }
    if (known_[at].found <= most || known_[at].none >= most) return known_[at].found;
    --left_;
    i32 best = known_[at].found;
    const u8 *bytes = trie_.byte.data(), *end = bytes + trie_.first[node + 1];
    for (const Move& move : moves_of(stack)) {
      if (best <= most) break;
      if (move.more > more) continue;
      for (const u8* by = std::lower_bound(bytes + trie_.first[node], end, move.low); best > most && by != end && *by <= move.high; ++by) {
        const i32 child = i32(by - bytes);
        if (trie_.first[child] < trie_.first[child + 1]) best = std::min(best, rest(move.stack, child, more - move.more, most));
        if (best > most && trie_.own_begin[child] < trie_.own_begin[child + 1]) best = std::min(best, 1 + rest(move.stack, Positions::ROOT, more - move.more, most - 1));
      }
    }
    Known& known = known_[at];
    known.found = std::min(known.found, best);
    if (left_ > 0 && best > most) known.none = std::max(known.none, most);
    return known.found;
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
  Crossing& crossing_;
  const Trie& trie_;
  Index index_;
  std::vector<Known> known_;
  IndexOf<u64> moves_index_;
  Stable<std::vector<Move>> moves_;
  size_t moves_bytes_ = 0;
  i32 left_ = 0;
};

}  // namespace tractile
