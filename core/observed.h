// Distances where observers look at bytes: between what the frames say, which do not see them, and a text that is found.
//
//     below     the distance by frames (`crossing.h`), for which WITHIN, APART and ITEM take anything
//     above     the bytes of a text that the observers take, where each byte is a token; and the fewest tokens of those on which no
//               observer is entered
//     exactly   a search over tokens (`search.h`), where neither tells
#pragma once

#include "bytes.h"
#include "crossing.h"
#include "search.h"

namespace tractile {

class Observed {
 public:
  Observed(Stacks& stacks, Positions& positions, Crossing& crossing)
      : stacks_(stacks),
        trie_(positions.trie()),
        crossing_(crossing),
        aside_(crossing, false),
        frames_(stacks),
        ends_(stacks, [this](i32 node) { return of_node(node); }) {}

  // Whether observers of bytes are open, or may come.
  bool looks(Item item) { return stacks_.observers.looks(item.env) || looks(item.stack); }

  // The bytes of some text from an item to the end, ENDLESS if there is none.
  i64 bytes(Item item) {
    if (!stacks_.observers.looks(item.env)) return ends_.of_stack(item.stack);
    auto [stack, env] = below(item);
    const Known& known = text(item, stack);
    return known ? std::min(ENDLESS, i64(known->bytes.size()) + bytes({stack, env})) : ENDLESS;
  }

  // The fewest tokens from an item to the end, if they are at most `most`, otherwise more; `exactly`: not a bound that is enough.
  i32 fewest(Item item, i32 most, bool spelled, bool exactly) {
    if (most == FAR) return !looks(item) || bytes(item) < ENDLESS ? 0 : FAR + 1;
    if (!exactly && spelled && !looks(item))  // as many bytes, each of which is a token
      if (i64 enough = bytes(item); enough <= most) return i32(enough);
    i32 least = crossing_.rest(item.stack, stacks_.observers.budgets(item.env), most);
    if (least > most || !looks(item)) return least;
    i64 enough = spelled ? bytes(item) : ENDLESS;
    if (spelled && enough >= ENDLESS) return FAR;
    if (!exactly && enough <= most) return i32(enough);
    i32 written = tokens(item, most, spelled);
    if (written <= (exactly ? least : most)) return written;
    bool may = searches > 0;
    if (may) --searches;
    else refused = true;
    if (may)
      if (const auto& found = by_search(item)) return i32(std::min<i64>({found->cost, enough, written}));
    return i32(std::min<i64>({FAR, enough, written}));
  }

  // Let so many answers be sought by tokens; those that are known count as well, so that what is found does not depend on them.
  void allow(i32 most) { searches = most, refused = false; }
  i32 searches = FAR;
  bool refused = false;  // whether one was not sought

  // A text by which an item with open observers is at most `most` tokens from the end, where `fewest` found that it is.
  const Text& witness(Item item, i32 most, bool spelled) {
    if (spelled && (most == FAR || bytes(item) <= most || tokens(item, most, spelled) <= most)) return *text(item, below(item).stack);
    return *by_search(item);
  }

  // Whether the texts of open items end at different lengths, whatever token they go on with.
  bool stay_apart(const std::vector<i32>& open, const Text& way) const {
    if (open.size() != way.open.size()) return false;
    std::vector<size_t> lengths;
    for (size_t k = 0; k < open.size(); ++k) {
      lengths.push_back(way.open[k]);
      for (i32 text = open[k]; text > 0; text = stacks_.observers.before(text).first) ++lengths.back();
    }
    std::sort(lengths.begin(), lengths.end());
    return std::adjacent_find(lengths.begin(), lengths.end()) == lengths.end();
  }

  // The texts that an item which is open may not have before `way`, the k-th of those, if `way` is to lead to the end.
  template <class F>
  void excluded(Item item, const Text& way, F&& f) {
    for (i32 text : others(item.env, way))
      for (size_t k = 0; k < way.open.size(); ++k) {
        i32 at = text;
        size_t left = way.open[k];
        for (; left > 0 && at > 0; --left) {
          auto [shorter, byte] = stacks_.observers.before(at);
          if (u8(way.bytes[left - 1]) != byte) break;
          at = shorter;
        }
        if (left == 0) f(k, at);
      }
  }

  // Of some tokens those with which an item that is open before them, compared as JSON, has the value of another at the end of `way`.
  std::vector<i32> equal_values(i32 env, const Text& way, const std::vector<i32>& tokens) {
    Observers& observers = stacks_.observers;
    std::vector<i32> open = observers.memory(env).open, found;
    if (open.size() != way.open.size()) return tokens;
    std::vector<std::string> values, begun;
    for (i32 value : others(env, way)) values.push_back(observers.written(value));
    std::sort(values.begin(), values.end());
    for (i32 text : open) begun.push_back(observers.written(text));
    // a token of characters that stand for themselves in a string is a part of the value
    bool in_string = !begun.empty() && JsonValue::is_in_string(begun.front());
    std::vector<u8> parts(trie_.text.size(), !in_string);
    for (const std::string& value : values)
      for (size_t begin = 0; in_string && begin < value.size(); ++begin) {
        i32 node = 0;
        for (size_t end = begin; end < value.size() && (node = trie_.child(node, u8(value[end]))) != NONE; ++end)
          for (i32 i = trie_.own_begin[node]; i < trie_.own_begin[node + 1]; ++i) parts[trie_.own[i]] = 1;
      }
    for (i32 token : tokens) {
      const auto& text = trie_.text[token];
      bool stays = std::all_of(text.begin(), text.end(), [](char c) { return c != '"' && c != '\\' && u8(c) >= 0x20; });
      if (stays && !parts[token]) continue;
      for (size_t k = 0; k < begun.size(); ++k) {
        std::string value = JsonValue::form(begun[k] + std::string(text.begin(), text.end()) + way.bytes.substr(0, way.open[k]));
        if (!std::binary_search(values.begin(), values.end(), value)) continue;
        found.push_back(token);
        break;
      }
    }
    return found;
  }

  size_t bytes() const { return ends_.bytes() + aside_.bytes() + index_.bytes() + exact_index_.bytes() + known_.size() * sizeof(Known) + exact_.size() * sizeof(Known); }

 private:
  using Known = std::optional<Text>;

  bool looks(i32 stack) {
    std::vector<i32> above;
    bool found = false;
    for (; stack != NONE; stack = stacks_.frame(stack).below) {
      if (stack < i32(looking_.size()) && looking_[stack] != NONE) {
        found = looking_[stack];
        break;
      }
      above.push_back(stack);
    }
    for (; !above.empty(); above.pop_back()) {
      Frame f = stacks_.frame(above.back());
      if (f.node == JOIN)
        for (i32 each : stacks_.joined(above.back())) found = found || looks(each);
      else found = found || node_looks(f.node);
      if (above.back() >= i32(looking_.size())) looking_.resize(above.back() + 1, NONE);
      looking_[above.back()] = found;
    }
    return found;
  }

  bool node_looks(i32 node) {
    if (nodes_.size() < stacks_.nodes.size()) nodes_.resize(stacks_.nodes.size(), NONE);
    if (nodes_[node] != NONE) return nodes_[node];
    std::vector<i32> reached{node};
    std::vector<u8> seen(stacks_.nodes.size(), 0);
    seen[node] = 1;
    bool found = false;
    for (size_t at = 0; at < reached.size() && !found; ++at) {
      Kind kind = stacks_.nodes[reached[at]].kind;
      found = kind == WITHIN || kind == APART;
      for (i32 part : stacks_.nodes[reached[at]].parts)
        if (!seen[part]) seen[part] = 1, reached.push_back(part);
    }
    if (!found)
      for (i32 each : reached) nodes_[each] = 0;
    nodes_[node] = found;
    return found;
  }

  // What is below the outermost observer that looks at bytes.
  Item below(Item item) {
    i32 open = 0;
    for (i32 e = item.env, at = 1; e; e = stacks_.observers.top(e).outer, ++at)
      if (stacks_.observers.kind(e) != TOKENS) open = at;
    for (; open; item.stack = stacks_.frame(item.stack).below) {
      Frame f = stacks_.frame(item.stack);
      if (f.node == JOIN) return {NONE, 0};  // its stacks share no frame
      if (stacks_.nodes[f.node].kind < WITHIN) continue;
      item.env = stacks_.observers.top(item.env).outer;
      --open;
    }
    return item;
  }

  // A text from an item to the stack below observers. That of a stack without texts of items will do for others, as far as all differ.
  const Known& text(Item item, i32 base) {
    i32 plain = stacks_.observers.without_texts(item.env);
    if (plain != item.env) {
      i32 shared = text_alone({item.stack, plain}, base);
      if (known_[shared] && serves(item.env, *known_[shared])) return known_[shared];
    }
    return known_[text_alone(item, base)];
  }

  // Whether a text that leads from an environment without texts of items leads from one that differs in nothing else.
  bool serves(i32 env, const Text& way) {
    std::vector<i32> open = stacks_.observers.memory(env).open;
    if (open.size() != way.open.size()) return false;
    std::vector<i32> texts = others(env, way);
    bool json = stacks_.observers.is_json(env);
    for (size_t k = 0; k < open.size(); ++k) texts.push_back(whole(stacks_.observers.longer(open[k], way.bytes, 0, way.open[k]), json));
    std::sort(texts.begin(), texts.end());
    return std::adjacent_find(texts.begin(), texts.end()) == texts.end();
  }

  // The texts of items that were read before `way`, and of those that lie in it.
  std::vector<i32> others(i32 env, const Text& way) {
    std::vector<i32> found;
    for (u64 read : stacks_.observers.memory(env).read) found.push_back(i32(u32(read)));
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    bool json = stacks_.observers.is_json(env);
    for (auto [begin, end] : way.items) found.push_back(whole(stacks_.observers.longer(0, way.bytes, begin, end), json));
    return found;
  }

  // What an item of this text is compared by.
  i32 whole(i32 text, bool json) { return json ? stacks_.observers.of_json(text) : text; }

  i32 text_alone(Item item, i32 base) {
    Index::Key key{u64(u32(item.stack)), u64(u32(item.env)), 0};
    i32 known = index_.find(key);
    if (known != NONE) return known;
    Known found = searched(item, base, false);
    index_.put(key, known = i32(known_.size()));
    known_.push_back(std::move(found));
    return known;
  }

  Known searched(Item item, i32 base, bool by_tokens) {
    crossing_.check();
    Search search(stacks_, trie_, by_tokens, frames_);
    Known found = search.text(item, base);
    crossing_.taken += search.taken;
    return found;
  }

  const Known& by_search(Item item) {
    Index::Key key{u64(u32(item.stack)), u64(u32(item.env)), 1};
    i32 known = exact_index_.find(key);
    if (known == NONE) {
      Known found = searched(item, NONE, true);
      exact_index_.put(key, known = i32(exact_.size()));
      exact_.push_back(std::move(found));
    }
    return exact_[known];
  }

  // The fewest tokens that write the way out of the observers, and from there a text without them, or a byte each; if more than `most`,
  // FAR.
  i32 tokens(Item item, i32 most, bool spelled) {
    if (!stacks_.observers.looks(item.env)) {
      i32 found = aside_.rest(item.stack, stacks_.observers.budgets(item.env), most);
      return found <= most ? found : FAR;
    }
    if (!spelled) return FAR;
    auto [stack, env] = below(item);
    const Known& known = text(item, stack);
    if (!known) return FAR;
    const std::string& text = known->bytes;
    std::vector<i32> fewest(text.size() + 1, FAR);
    fewest[0] = 0;
    for (size_t begin = 0; begin < text.size(); ++begin) {
      i32 node = 0;
      for (size_t end = begin; end < text.size() && fewest[begin] < FAR; ++end) {
        node = trie_.child(node, u8(text[end]));
        if (node == NONE) break;
        if (trie_.own_begin[node] < trie_.own_begin[node + 1]) fewest[end + 1] = std::min(fewest[end + 1], fewest[begin] + 1);
      }
    }
    if (fewest.back() > most) return FAR;
    i32 after = std::min(aside_.rest(stack, stacks_.observers.budgets(env), most - fewest.back()), i32(std::min<i64>(FAR, bytes({stack, env}))));
    return after <= most - fewest.back() ? fewest.back() + after : FAR;
  }

  // The bytes of a text of an observer's node.
  i64 of_node(i32 node) {
    Known found = searched({stacks_.push(node, stacks_.first(node), NONE), 0}, NONE, false);
    return found ? i64(found->bytes.size()) : ENDLESS;
  }

  Stacks& stacks_;
  const Trie& trie_;
  Crossing& crossing_;
  Crossing aside_;  // where no observer is entered
  Bytes frames_;  // where observers take anything
  Bytes ends_;
  std::vector<i32> looking_, nodes_;  // by stack, by node; NONE: not yet
  Index index_, exact_index_;
  std::deque<Known> known_;
  std::deque<Known> exact_;
};

}  // namespace tractile
