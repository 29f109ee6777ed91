// Sets of tokens, each kept once and numbered from 0: masks are many, and alike.
#pragma once

#include <string_view>

#include "lexed.h"

namespace tractile {

class TokenSets {
 public:
  // A set in the making: groups of what was read, tokens, and one bit for each token of the vocabulary if there are any.
  struct Union {
    std::vector<i32> tokens;
    std::vector<const Lexed::Group*> groups;
    std::vector<u32> bits;
    std::vector<i32> read;  // by which the groups are known: the number of each `Lexed`, the groups of it that are left out, NONE
  };

  explicit TokenSets(i32 words) : words_(words) {}

  const TokenSet& operator[](i32 number) const { return sets_[number]; }

  // The number of a union; that of the same groups is known without looking at them.
  i32 number(Union& found) {
    if (found.read.empty() || !found.bits.empty()) return of_groups(found);
    const i32 read_number = reads_.number(found.read);
    of_read_.resize(reads_.count(), NONE);
    if (of_read_[read_number] == NONE) of_read_[read_number] = of_groups(found);
    return of_read_[read_number];
  }

  size_t bytes() const { return bytes_ + index_.bytes() + reads_.bytes() + 4 * of_read_.capacity(); }

 private:
  i32 of_groups(Union& found) {
    std::vector<const Lexed::Group*> large;
    for (const Lexed::Group* group : found.groups)
      if (Lexed::is_large(*group)) large.push_back(group);
      else Lexed::each(*group, [&](i32 token) { found.tokens.push_back(token); });
    std::sort(found.tokens.begin(), found.tokens.end());
    found.tokens.erase(std::unique(found.tokens.begin(), found.tokens.end()), found.tokens.end());
    if (found.bits.empty() && large.empty() && found.tokens.size() <= size_t(words_)) return of_list(found.tokens);
    std::vector<u32> bits = std::move(found.bits);
    bits.resize(words_, 0);
    for (const Lexed::Group* group : large) Lexed::add(*group, bits.data());
    for (i32 token : found.tokens) bits[token >> 5] |= 1u << (token & 31);
    std::vector<i32> list(bits.size() + 32);
    size_t count = 0;
    for (size_t w = 0; w < bits.size() && count <= bits.size(); ++w)
      for (u32 word = bits[w]; word; word &= word - 1) list[count++] = i32(32 * w + __builtin_ctz(word));
    if (count > bits.size()) return known(bits, [&](const TokenSet& set) { return set.bits == bits; });
    list.resize(count);
    return of_list(list);
  }

  i32 of_list(const std::vector<i32>& list) {
    return known(list, [&](const TokenSet& set) { return set.bits.empty() && set.list == list; });
  }

  template <class T, class F>
  i32 known(const std::vector<T>& content, F&& is) {
    u64 hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(content.data()), sizeof(T) * content.size()});
    for (u64 turn = 0;; ++turn) {  // sets of equal hashes are told apart
      i32 number = index_.find({hash, content.size(), turn});
      if (number != NONE && !is(sets_[number])) continue;
      if (number != NONE) return number;
      index_.put({hash, content.size(), turn}, number = i32(sets_.size()));
      sets_.emplace_back(content, words_);
      bytes_ += sets_.back().bytes() + sizeof(TokenSet);
      return number;
    }
  }

  i32 words_;
  Stable<TokenSet> sets_;
  Index index_;  // by content
  Lists reads_;
  std::vector<i32> of_read_;  // the sets
  size_t bytes_ = 0;
};

}  // namespace tractile
