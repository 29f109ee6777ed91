// Masks: the Boolean next-token query, by frames; within a budget with the distances of `crossing.h`.
#pragma once

#include "bytes.h"
#include "crossing.h"

namespace tractile {

class Masks {
 public:
  Masks(Stacks& stacks, Positions& positions, Lexer& lexer, Crossing& crossing)
      : stacks_(stacks), positions_(positions), lexer_(lexer), crossing_(crossing), ends_(stacks) {}

  // The fewest tokens from a configuration, at the end of a token, to the end of the text, if at most `most`; otherwise more.
  i32 fewest(i32 configuration, i32 most = SOME) {
    const Configuration& c = stacks_.configurations[configuration];
    if (c.accepting) return 0;
    i32 best = FAR;
    for (Item item : c.reading)
      best = std::min(best, crossing_.rest(item.stack, stacks_.observers.budgets(item.env), std::min(most, best - 1)));
    return best;
  }

  // The configuration after the end of a token, NONE if there is none; `spelled`: the tokens write all that the program reads.
  i32 after_token(i32 configuration, bool spelled) {
    i32 found = stacks_.token_end(configuration);
    return found == NONE || spelled || fewest(found) < FAR ? found : NONE;
  }

  // The tokens that may follow, into `out`.
  void words(i32 configuration, bool spelled, u32* out) {
    const Known& known = filled(configuration, spelled);
    std::memcpy(out, known.words.data(), 4 * known.words.size());
  }

  // An upper bound of the tokens that complete a text after any token that may follow.
  i64 enough(i32 configuration, bool spelled) { return filled(configuration, spelled).most; }

  // Those of them after which `left` tokens suffice.
  void words_within(i32 configuration, i32 left, u32* out) {
    std::memset(out, 0, 4 * positions_.trie().words);
    if (left >= 0) fill(configuration, left, out);
  }

  size_t bytes() const { return bytes_ + ends_.bytes() + known_.size() * sizeof(Known) + index_.bytes() + rest_index_.bytes() + walk_index_.bytes(); }
  u64 visited = 0;  // positions

 private:
  struct Known {
    std::vector<u32> words;
    i64 most = 0;
  };

  const Known& filled(i32 configuration, bool spelled) {
    while (i32(known_.size()) <= configuration) known_.emplace_back();
    Known& known = known_[configuration];
    if (known.words.empty()) {
      std::vector<u32> words(positions_.trie().words, 0);  // kept only if nothing stops this
      most_ = 0;
      fill(configuration, spelled ? FAR : SOME, words.data());
      known.words.swap(words);
      known.most = most_;
      bytes_ += 4 * known.words.size();
    }
    return known;
  }

  // `left` of FAR: no budget, and no token leads nowhere. Of FAR and SOME, `most_` is as in `enough`.
  void fill(i32 configuration, i32 left, u32* out) {
    std::vector<Item> reading = stacks_.configurations[configuration].reading;
    for (Item item : reading) {
      i32 inside = item.env, after = item.env;  // in a token that has written a byte; after it
      if (item.env) {
        inside = stacks_.observers.read(item.env, 0);
        if (inside == NONE) continue;
        after = stacks_.observers.token_end(inside);
      }
      Frame f = stacks_.frame(item.stack);
      const Node& n = stacks_.nodes[f.node];
      const Table& t = stacks_.table_of(f.node, f.reg);
      i32 table = n.kind == BAG ? n.tables[stacks_.bag_read(f.reg).count > 0] : n.tables[0];
      const Lexed& found = lexer_.of(table, i32(Stacks::low(f.reg)), Positions::ROOT);
      for (const Lexed::Group& group : found.groups) {
        u64 reg;
        if (!goes_on(f, n, t, group.state, group.characters, reg)) continue;
        i32 stack = stacks_.push(f.node, reg, f.below);
        if (left == FAR) {
          most_ = std::max(most_, ends_.of_stack(stack));
        } else {
          i32 rest = crossing_.rest(stack, after, left);
          if (rest > left) continue;
          most_ = std::max(most_, i64(rest));
        }
        Lexed::add(group, out);
      }
      // what leaves the frame, all places together that go on alike
      std::vector<std::pair<i32, i32>> left_at;  // configuration, position
      for (const Lexed::Exit& exit : found.exits) {
        u64 reg;
        if (!goes_on(f, n, t, exit.state, exit.characters, reg)) continue;
        i32 next = left_for(f, reg, inside);
        if (next == NONE) continue;
        bool joined = false;
        for (auto& each : left_at)
          if (each.first == next) {
            each.second = positions_.both(each.second, exit.position);
            joined = true;
          }
        if (!joined) left_at.push_back({next, exit.position});
      }
      for (auto [next, position] : left_at) walk(next, position, left, out);
    }
  }

  // Whether the frame may be in this state of its table after a token; `reg` is its register then.
  bool goes_on(const Frame& f, const Node& n, const Table& t, i32 state, i32 characters, u64& reg) {
    if (n.kind == LEX) {
      reg = u64(u32(state));
      return true;
    }
    if (n.kind == COUNT) {
      i64 count = i64(Stacks::high(f.reg)) + characters;
      reg = Stacks::pair(std::min(count, n.cap()), u32(state));
      return stacks_.alive(n, state, count);
    }
    reg = Stacks::pair(Stacks::high(f.reg), u32(state));
    return stacks_.leads_on(t, state, stacks_.labels(f.node, f.reg));
  }

  // The configuration after a frame that may end, or whose name has been read, without what it might read on itself.
  i32 left_for(const Frame& f, u64 reg, i32 env) {
    Index::Key key{u64(u32(f.node)), reg, u64(u32(f.below)) | u64(env) << 32};
    i32 known = rest_index_.find(key);
    if (known != NONE) return known - 1;
    std::vector<Item> items;
    if (stacks_.nodes[f.node].kind == BAG) {
      stacks_.calls(f.node, reg, [&](i32 node, u64 after) { items.push_back({stacks_.called(node, f.node, after, f.below), env}); });
    } else if (stacks_.ends(f.node, reg) && f.below != NONE) {
      items.push_back({f.below, env});
    }
    i32 found = items.empty() ? NONE : stacks_.closed(items);
    rest_index_.put(key, found + 1);
    return found;
  }

  // The tokens in progress at a position that go on from a configuration.
  void walk(i32 configuration, i32 position, i32 left, u32* out) {
    Index::Key key{u64(u32(configuration)), u64(u32(position)), 3};
    i32 known = left >= SOME ? walk_index_.find(key) : NONE;
    if (known == NONE) {
      std::vector<i32> found;
      i64 most = 0;
      std::vector<std::pair<i32, i32>> todo{{configuration, position}};
      while (!todo.empty()) {
        auto [at, place] = todo.back();
        todo.pop_back();
        positions_.children(place, [&, at = at](u8 byte, i32 child) {
          ++visited;
          i32 next = stacks_.step(at, byte);
          if (next == NONE) return;
          todo.push_back({next, child});
          if (!positions_.ends_token(child)) return;
          i64 rest = left == FAR ? ends_.of(next) : fewest(stacks_.token_end(next), left);
          if (left != FAR && rest > left) return;
          most = std::max(most, rest);
          positions_.tokens(child, [&](i32 token) { found.push_back(token); });
        });
      }
      if (left < SOME) {
        for (i32 token : found) out[token >> 5] |= 1u << (token & 31);
        return;
      }
      bytes_ += 4 * found.size() + 32;
      walk_index_.put(key, known = i32(walks_.size()));
      walks_.push_back({std::move(found), most});
    }
    most_ = std::max(most_, walks_[known].second);
    for (i32 token : walks_[known].first) out[token >> 5] |= 1u << (token & 31);
  }

  Stacks& stacks_;
  Positions& positions_;
  Lexer& lexer_;
  Crossing& crossing_;
  std::deque<Known> known_;
  Index index_, rest_index_, walk_index_;
  std::vector<std::pair<std::vector<i32>, i64>> walks_;
  Bytes ends_;
  i64 most_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tractile
