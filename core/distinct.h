// What keeps items apart that must differ: which texts make one that is open equal to another.
//
// An environment has items that were read, and some that are open. A token and a text that leads to the end complete the open ones;
// further items may lie in the text. As JSON, items are compared by their forms (`json_value.h`).
#pragma once

#include "positions.h"
#include "search.h"

namespace tractile {

class Distinct {
 public:
  u64 taken = 0;  // bytes of texts that were compared

  Distinct(Observers& observers, const Trie& trie) : observers_(observers), trie_(trie) {}

  // Whether the texts of open items end at different lengths, whatever token they go on with.
  bool stay_apart(const std::vector<i32>& open, const Text& way) const {
    if (open.size() != way.open.size()) return false;
    std::vector<size_t> lengths;
    for (size_t k = 0; k < open.size(); ++k) {
      lengths.push_back(way.open[k]);
      for (i32 text = open[k]; text > 0; text = observers_.before(text).first) ++lengths.back();
    }
    std::sort(lengths.begin(), lengths.end());
    return std::adjacent_find(lengths.begin(), lengths.end()) == lengths.end();
  }

  // The texts that an item which is open may not have before `way`, the k-th of those, if `way` is to lead to the end.
  template <class F>
  void excluded(i32 env, const Text& way, F&& f) {
    std::vector<i32> others = items(way, false);
    others.insert(others.end(), begun(env).read.begin(), begun(env).read.end());
    for (i32 text : others)
      for (size_t k = 0; k < way.open.size(); ++k) {
        i32 at = text;
        size_t left = way.open[k];
        for (; left > 0 && at > 0; --left) {
          auto [shorter, byte] = observers_.before(at);
          if (u8(way.bytes[left - 1]) != byte) break;
          at = shorter;
        }
        if (left == 0) f(k, at);
      }
  }

  // Whether a text that leads from an environment without texts of items leads from one that differs in nothing else.
  bool keeps_distinct(i32 env, const Text& way) {
    const Begun& begun = this->begun(env);
    taken += way.bytes.size();
    if (begun.open.size() != way.open.size()) return false;
    std::vector<i32> others = items(way, begun.is_json);
    std::sort(others.begin(), others.end());
    for (size_t i = 0; i < others.size(); ++i)
      if ((i && others[i] == others[i - 1]) || std::binary_search(begun.read.begin(), begun.read.end(), others[i])) return false;
    if (begun.open.size() == 1 && begun.read.empty() && others.empty()) return true;
    std::vector<std::string> open;
    for (size_t k = 0; k < begun.open.size(); ++k) {
      open.push_back(compared(begun, k, "", way));
      taken += open.back().size();
      if (std::count(open.begin(), open.end(), open.back()) > 1 || is_one_of(open.back(), begun.read, others)) return false;
    }
    return true;
  }

  // Of tokens in progress at a node those with which an item that is open, compared as JSON, may have the value of another at the end of
  // `way`; false if those are not told from the others.
  bool may_be_equal(i32 env, i32 node, const Text& way, std::vector<i32>& found) {
    Begun& begun = this->begun(env);
    if (begun.open.size() != way.open.size()) return false;
    if (begun.node != node) {
      begun.node = node;
      begun.near.clear();
      size_t from = JsonValue::string_in_progress(begun.open.front());
      begun.string = from == std::string::npos ? "" : JsonValue::form(begun.open.front().substr(from) + '"');
      if (!begun.string.empty()) begun.string.pop_back(), add_spellings(begun, begun.read, begun.near);
    }
    if (begun.string.empty()) return false;
    found = begun.near;
    add_spellings(begun, items(way, true), found);
    return true;
  }

  // Whether an item that is open has the value of another after `word` and at the end of `way`.
  bool are_equal(i32 env, const std::string& word, const Text& way) {
    const Begun& begun = this->begun(env);
    if (begun.open.size() != way.open.size()) return true;
    std::vector<i32> others = items(way, true);
    for (size_t k = 0; k < begun.open.size(); ++k)
      if (is_one_of(compared(begun, k, word, way), begun.read, others)) return true;
    return false;
  }

 private:
  struct Begun {  // what the items of an environment are told apart by
    i32 env = NONE;
    bool is_json;
    std::vector<std::string> open;  // what was read of items that are open
    std::vector<i32> read;          // what those are compared by that were read, in ascending order
    i32 node = NONE;                // of the trie; of tokens there in progress:
    std::string string;             // the string in progress as forms write it, without its end; empty if there is none
    std::vector<i32> near;          // those with which it may become one of `read`
  };

  Begun& begun(i32 env) {
    if (begun_.env == env) return begun_;
    Observers::Items items = observers_.items(env);
    begun_ = {env, observers_.is_json(env), {}, std::move(items.read), NONE, "", {}};
    for (i32 text : items.open) begun_.open.push_back(observers_.written(text));
    return begun_;
  }

  // What an item is compared by that is open, after `word` and its part of `way`.
  static std::string compared(const Begun& begun, size_t k, const std::string& word, const Text& way) {
    std::string text = begun.open[k] + word + way.bytes.substr(0, way.open[k]);
    return begun.is_json ? JsonValue::form(text) : text;
  }

  // What the items in a text are compared by.
  std::vector<i32> items(const Text& way, bool json) {
    std::vector<i32> found;
    for (auto [begin, end] : way.items) {
      i32 text = observers_.longer(0, way.bytes, begin, end);
      found.push_back(json ? observers_.of_json(text) : text);
    }
    return found;
  }

  bool is_one_of(const std::string& text, const std::vector<i32>& read, const std::vector<i32>& others) const {
    i32 found = observers_.find(text);
    return found != NONE && (std::binary_search(read.begin(), read.end(), found) || std::count(others.begin(), others.end(), found));
  }

  // Add the tokens with which the string in progress may go on as one of those in some values does.
  void add_spellings(const Begun& begun, const std::vector<i32>& values, std::vector<i32>& found) const {
    std::vector<i32> whole;  // nodes of the trie: all tokens below them
    for (i32 value : values) {
      std::string form = observers_.written(value);
      JsonValue::strings(form, [&](size_t at) {
        if (form.compare(at, begun.string.size(), begun.string) == 0) add_spellings(begun.node, form, at + begun.string.size(), found, whole);
      });
    }
    for (i32 node : whole) {
      const Trie::Place* place = &trie_.places[trie_.order[node]];
      found.insert(found.end(), trie_.in_order.begin() + place->own, trie_.in_order.begin() + trie_.places[place->after].own);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }

  // Add to `found` the tokens below a node that spell `form` from `at` on; to `whole` nodes below which any token may come.
  void add_spellings(i32 node, const std::string& form, size_t at, std::vector<i32>& found, std::vector<i32>& whole) const {
    auto add_whole = [&](i32 child) {
      if (child != NONE && !std::count(whole.begin(), whole.end(), child)) whole.push_back(child);
    };
    auto read = [&](i32 child, size_t end) {
      if (child == NONE) return;
      found.insert(found.end(), trie_.own.begin() + trie_.own_begin[child], trie_.own.begin() + trie_.own_begin[child + 1]);
      if (end > at) add_spellings(child, form, end, found, whole);
    };
    if (form[at] == '"') return add_whole(trie_.child(node, '"'));
    size_t last = at + (form[at] == '\\');  // of the character
    if (last == at) read(trie_.child(node, u8(form[at])), at + 1);
    i32 escape = trie_.child(node, '\\');
    if (escape == NONE) return;
    read(escape, at);
    add_whole(trie_.child(escape, 'u'));
    if (char letter = JsonValue::escaped(form[last])) read(trie_.child(escape, u8(letter)), last + 1);
  }

  Observers& observers_;
  const Trie& trie_;
  Begun begun_;  // that of the last environment
};

}  // namespace tractile
