// What a table does with the tokens that begin in one of its states: sets of tokens by the state after them, and places where a text
// may end inside a token.
#pragma once

#include "positions.h"

namespace tractile {

// A set of tokens: a list, or one bit for each token of the vocabulary where that takes less room.
struct TokenSet {
  std::vector<i32> list;
  std::vector<u32> bits;

  TokenSet(const std::vector<i32>& tokens, i32 words) {
    if (tokens.size() <= size_t(words)) {
      list = tokens;
      std::sort(list.begin(), list.end());
      return;
    }
    bits.assign(words, 0);
    for (i32 token : tokens) bits[token >> 5] |= 1u << (token & 31);
  }

  TokenSet(const std::vector<u32>& words, i32) : bits(words) {}

  // Write the set over so many words.
  void write(u32* out, i32 words) const {
    std::fill(std::copy(bits.begin(), bits.end(), out), out + words, 0);
    for (i32 token : list) out[token >> 5] |= 1u << (token & 31);
  }

  void add(u32* out) const {
    for (size_t w = 0; w < bits.size(); ++w) out[w] |= bits[w];
    for (i32 token : list) out[token >> 5] |= 1u << (token & 31);
  }

  bool has(i32 token) const {
    return bits.empty() ? std::binary_search(list.begin(), list.end(), token) : bits[token >> 5] >> (token & 31) & 1;
  }

  template <class F>
  void each(F&& f) const {
    for (i32 token : list) f(token);
    for (size_t w = 0; w < bits.size(); ++w)
      for (u32 word = bits[w]; word; word &= word - 1) f(i32(32 * w + __builtin_ctz(word)));
  }

  size_t bytes() const { return 4 * (list.capacity() + bits.capacity()); }
};

struct Lexed {
  using Tokens = std::shared_ptr<const TokenSet>;
  struct Group {  // the tokens that end in one state after so many characters: `tokens` without those that `gone` marks
    i32 state, characters;
    Tokens tokens;
    Tokens gone;  // nullptr: none
    i32 env = 0;  // of open tables after them
  };
  struct Exit {  // where the text may end inside a token: in this state after so many characters, at these nodes
    i32 state, characters, position;
    i32 env = 0;
  };
  std::vector<Group> groups;  // none without tokens
  std::vector<Exit> exits;
  i32 number = NONE;  // of all that a `Lexer` keeps

  // Add the tokens of a group to a mask.
  static void add(const Group& group, u32* out) {
    const TokenSet& set = *group.tokens;
    if (!group.gone) {
      set.add(out);
    } else if (set.bits.empty()) {
      for (i32 token : set.list)
        if (!group.gone->has(token)) out[token >> 5] |= 1u << (token & 31);
    } else {
      std::vector<i32> had;
      group.gone->each([&](i32 token) {
        if (out[token >> 5] >> (token & 31) & 1) had.push_back(token);
      });
      set.add(out);
      group.gone->each([&](i32 token) { out[token >> 5] &= ~(1u << (token & 31)); });
      for (i32 token : had) out[token >> 5] |= 1u << (token & 31);
    }
  }

  static bool has(const Group& group, i32 token) { return group.tokens->has(token) && !(group.gone && group.gone->has(token)); }

  // f(token) of each token of a group, in ascending order.
  template <class F>
  static void each(const Group& group, F&& f) {
    group.tokens->each([&](i32 token) {
      if (!group.gone || !group.gone->has(token)) f(token);
    });
  }

  // The last token of a group, NONE if there is none.
  static i32 last(const Group& group) {
    auto stays = [&](i32 token) { return !group.gone || !group.gone->has(token); };
    const TokenSet& set = *group.tokens;
    for (size_t i = set.list.size(); i-- > 0;)
      if (stays(set.list[i])) return set.list[i];
    for (size_t w = set.bits.size(); w-- > 0;)
      for (u32 word = set.bits[w]; word;) {
        i32 bit = 31 - __builtin_clz(word);
        if (stays(i32(32 * w) + bit)) return i32(32 * w) + bit;
        word ^= 1u << bit;
      }
    return NONE;
  }

  // Whether it takes long to look at each token of a group.
  static bool is_large(const Group& group) { return !group.tokens->bits.empty() || group.tokens->list.size() > 16; }

  size_t bytes() const {
    size_t found = sizeof(*this) + sizeof(Exit) * exits.capacity() + sizeof(Group) * groups.capacity();
    for (const Group& g : groups) found += g.gone ? g.gone->bytes() / groups.size() : g.tokens.use_count() > 1 ? 0 : g.tokens->bytes();
    return found;
  }
};

}  // namespace tractile
