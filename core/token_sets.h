// Sets of tokens, each kept once and numbered from 0: masks are many, and alike.
#pragma once

#include <string_view>

#include "lexed.h"

namespace tractile {

class TokenSets {
 public:
  // A set in the making: tokens, large groups, and one bit for each token of the vocabulary if there are any.
  struct Union {
    std::vector<i32> tokens;
    std::vector<const Lexed::Group*> large;
    std::vector<u32> bits;

    void add(const Lexed::Group& group) {
      if (Lexed::is_large(group)) large.push_back(&group);
      else Lexed::each(group, [&](i32 token) { tokens.push_back(token); });
    }
  };

  explicit TokenSets(i32 words) : words_(words) {}

  const TokenSet& operator[](i32 number) const { return sets_[number]; }

  // The number of a union; that of the same tokens and groups is known without reading them.
  i32 number(Union& found) {
    std::sort(found.tokens.begin(), found.tokens.end());
    found.tokens.erase(std::unique(found.tokens.begin(), found.tokens.end()), found.tokens.end());
    if (!found.bits.empty()) return of_bits(found);
    if (found.large.empty() && found.tokens.size() <= size_t(words_)) return of_list(found.tokens);
    std::vector<i32> form;  // of each group what it has without the tokens, and the tokens that no group has
    for (const Lexed::Group* group : found.large) {
      u64 address = reinterpret_cast<uintptr_t>(group->tokens.get());
      form.insert(form.end(), {i32(u32(address)), i32(u32(address >> 32))});
      auto next = found.tokens.begin();
      if (group->gone)
        group->gone->each([&](i32 token) {
          next = std::find_if(next, found.tokens.end(), [&](i32 each) { return each >= token; });
          if ((next == found.tokens.end() || *next > token) && group->tokens->has(token)) form.push_back(token);
        });
      form.push_back(NONE);
    }
    std::vector<i32> alone = found.tokens, rest;
    for (const Lexed::Group* group : found.large) {
      const TokenSet& set = *group->tokens;
      rest.clear();
      if (set.bits.empty()) std::set_difference(alone.begin(), alone.end(), set.list.begin(), set.list.end(), std::back_inserter(rest));
      else std::remove_copy_if(alone.begin(), alone.end(), std::back_inserter(rest), [&](i32 token) { return set.has(token); });
      alone.swap(rest);
    }
    form.insert(form.end(), alone.begin(), alone.end());
    i32 union_number = unions_.number(form);
    of_union_.resize(unions_.count(), NONE);
    i32& set = of_union_[union_number];
    return set == NONE ? set = of_bits(found) : set;
  }

  size_t bytes() const { return bytes_ + index_.bytes() + unions_.bytes() + 4 * of_union_.capacity(); }

 private:
  i32 of_bits(Union& found) {
    std::vector<u32> bits = std::move(found.bits);
    bits.resize(words_, 0);
    for (const Lexed::Group* group : found.large) Lexed::add(*group, bits.data());
    for (i32 token : found.tokens) bits[token >> 5] |= 1u << (token & 31);
    std::vector<i32> list(bits.size() + 32);
    size_t count = 0;
    for (size_t w = 0; w < bits.size() && count <= bits.size(); ++w)
      for (u32 word = bits[w]; word; word &= word - 1) list[count++] = i32(32 * w + __builtin_ctz(word));
    if (count <= bits.size()) {
      list.resize(count);
      return of_list(list);
    }
    return known(bits, [&](const TokenSet& set) { return set.bits == bits; });
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
  Lists unions_;
  std::vector<i32> of_union_;  // the sets
  size_t bytes_ = 0;
};

}  // namespace tractile
