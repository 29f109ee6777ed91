// Where a token in progress may be: sets of nodes of the vocabulary's prefix tree.
//
// Position 0 is the root alone: no token is in progress. Of what was read of a token only the tokens that it may still become
// matter, so a set of nodes can be read on from as one: all the places where a part of a text may end, say.
#pragma once

#include "follow.h"

namespace tractile {

// The prefix tree of a vocabulary. The children of a node are a range of nodes, sorted by their bytes; node 0 is the root.
struct Trie {
  std::vector<u8> byte;        // on the edge to a node
  std::vector<i32> first;      // child ranges: first[n] .. first[n + 1]
  std::vector<i32> own_begin;  // the tokens that end at a node: own[own_begin[n]] .. own[own_begin[n + 1]]
  std::vector<i32> own;
  std::vector<std::string> text;  // by token; empty if it writes nothing
  std::vector<i32> parent;
  struct Place {               // of a node in the depth-first order
    i32 node, after;         // `after`: the first place that is not below it
    i32 own;                 // the tokens that end there: in_order[own] .. in_order[own of the next place]
    u32 depth : 24, byte : 8;
  };
  std::vector<Place> places;  // and one after the last
  std::vector<i32> in_order;  // tokens
  std::vector<i32> order;     // by node its place
  i32 vocab = 0, words = 0;
  i32 deepest = 0;  // bytes of the longest token
  std::vector<u8> suffix_cost;             // by node: the most tokens that write, from between two tokens, what a token has from its byte on
  u8 suffix_cost_after[256][256] = {{0}};  // by the byte to the parent and that to the node
  std::vector<i32> by_byte[256];  // nodes
  i64 below[256] = {0};           // by byte the nodes to which it leads and those below them
  std::vector<i32> costly[256];  // of those the ones whose `suffix_cost` is above 1
  ByteSet before[256];           // by byte those that are beside it in a token, before it
  i32 eos = NONE;  // the token that ends a text
  static constexpr u8 NEVER = 255;

  // The tree of a vocabulary in which each byte is a token.
  static const Trie& of_bytes() {
    static const Trie made = made_of_bytes();
    return made;
  }

  static Trie made_of_bytes() {
    Trie t;
    t.byte.assign(257, 0);
    t.first.assign(258, 257);
    t.first[0] = 1;
    t.own_begin.assign(2, 0);
    for (i32 b = 0; b < 256; ++b) {
      t.byte[b + 1] = u8(b);
      t.own.push_back(b);
      t.own_begin.push_back(b + 1);
      t.text.push_back(std::string(1, char(b)));
    }
    t.vocab = 256;
    t.words = 8;
    t.put_in_order();
    return t;
  }

  // The child of a node for a byte, NONE if there is none.
  i32 child(i32 node, u8 by) const {
    const u8* all = byte.data();
    const u8* end = all + first[node + 1];
    const u8* at = std::lower_bound(all + first[node], end, by);
    return at != end && *at == by ? i32(at - all) : NONE;
  }

  // The node of a text read on from a node, NONE if no token begins so.
  i32 find(const std::string& word, i32 node) const {
    for (size_t i = 0; i < word.size() && node != NONE; ++i) node = child(node, u8(word[i]));
    return node;
  }

  void put_in_order() {
    for (const std::string& word : text) deepest = std::max(deepest, i32(word.size()));
    parent.assign(byte.size(), NONE);
    for (size_t n = 0; n < byte.size(); ++n)
      for (i32 child = first[n]; child < first[n + 1]; ++child) parent[child] = i32(n), by_byte[byte[child]].push_back(child);
    order.assign(byte.size(), 0);
    std::vector<i32> todo{0};
    while (!todo.empty()) {
      i32 n = todo.back();
      todo.pop_back();
      if (n < 0) {
        places[order[~n]].after = i32(places.size());
        below[byte[~n]] += i64(places.size()) - order[~n];
        continue;
      }
      order[n] = i32(places.size());
      places.push_back({n, 0, i32(in_order.size()), n ? places[order[parent[n]]].depth + 1u : 0u, byte[n]});
      in_order.insert(in_order.end(), own.begin() + own_begin[n], own.begin() + own_begin[n + 1]);
      todo.push_back(~n);
      for (i32 child = first[n + 1] - 1; child >= first[n]; --child) todo.push_back(child);
    }
    places.push_back({NONE, 0, i32(in_order.size()), 0, 0});
    find_suffix_costs();
  }

  // Of each text of the tree the fewest tokens that write what follows a place in it; NEVER where none do.
  void find_suffix_costs() {
    suffix_cost.assign(byte.size(), 0);
    std::vector<std::vector<std::pair<i32, i32>>> ways(deepest + 1);  // by depth: nodes for the ends of the text, and where those begin
    std::vector<std::vector<u8>> fewest(deepest + 1);                 // by depth and begin
    for (size_t at = 1; at + 1 < places.size(); ++at) {
      const i32 depth = i32(places[at].depth), node = places[at].node;
      std::vector<u8>& least = fewest[depth];
      least.assign(depth, NEVER);
      ways[depth].clear();
      auto go_on = [&](i32 from, i32 begin) {
        i32 to = child(from, byte[node]);
        if (to == NONE) return;
        ways[depth].push_back({to, begin});
        if (own_begin[to] == own_begin[to + 1]) return;
        least[begin] = 1;
        for (i32 i = 1; i < begin; ++i) least[i] = u8(std::min<i32>(least[i], fewest[begin][i] + 1));
      };
      for (auto [from, begin] : ways[depth - 1]) go_on(from, begin);
      if (depth > 1) go_on(0, depth - 1);
      for (i32 i = depth - 1, below = node; i > 0 && own_begin[node] < own_begin[node + 1]; --i, below = parent[below])
        suffix_cost[below] = std::max(suffix_cost[below], least[i]);
    }
    for (size_t node = 1; node < byte.size(); ++node) {
      u8& most = suffix_cost_after[byte[parent[node]]][byte[node]];
      most = std::max(most, suffix_cost[node]);
      if (parent[node]) before[byte[node]].put(byte[parent[node]], byte[parent[node]]);
      if (suffix_cost[node] > 1) costly[byte[node]].push_back(i32(node));
    }
  }
};

class Positions {
 public:
  explicit Positions(const Trie& trie) : trie_(trie), singles_(i32(trie.byte.size())), width_(singles_ / 32 + 1) {}

  static constexpr i32 ROOT = 0;

  // The position of these nodes, which are sorted here; NONE for no node. A single node is its own position.
  i32 of(std::vector<i32>& nodes) {
    if (nodes.empty()) return NONE;
    if (nodes.size() > size_t(width_) / 2) {
      std::vector<i32> words(1 + width_, 0);
      for (i32 n : nodes) words[1 + n / 32] |= i32(1u << n % 32);
      return of_words(words);
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return numbered(nodes, nodes.size());
  }

  // The nodes to which a byte leads; NONE if there are none.
  i32 child(i32 position, u8 byte) {
    if (position < singles_) return trie_.child(position, byte);
    Index::Key key{u64(u32(position)), byte, 6};
    i32 found = index_.find(key);
    if (found != NONE) return found - 1;
    std::vector<i32> children;
    const std::vector<i32>& all = trie_.by_byte[byte];
    if (all.size() < size(position)) std::copy_if(all.begin(), all.end(), std::back_inserter(children), [&](i32 n) { return has(position, trie_.parent[n]); });
    else nodes(position, [&](i32 n) {
      if (i32 to = trie_.child(n, byte); to != NONE) children.push_back(to);
    });
    found = of(children);
    index_.put(key, found + 1);
    return found;
  }

  bool has(i32 position, i32 node) const {
    if (position < singles_) return position == node;
    const i32 *begin = sets_.begin(position - singles_), *end = sets_.end(position - singles_);
    return *begin == BITS ? u32(begin[1 + node / 32]) >> node % 32 & 1 : std::binary_search(begin, end, node);
  }

  // f(token) for each token that ends here.
  template <class F>
  void tokens(i32 position, F&& f) const {
    nodes(position, [&](i32 n) {
      for (i32 i = trie_.own_begin[n]; i < trie_.own_begin[n + 1]; ++i) f(trie_.own[i]);
    });
  }

  bool ends_token(i32 position) const {
    bool found = false;
    tokens(position, [&](i32) { found = true; });
    return found;
  }

  template <class F>
  void nodes(i32 position, F&& f) const {
    if (position < singles_) return f(position);
    const i32 *n = sets_.begin(position - singles_), *end = sets_.end(position - singles_);
    if (*n != BITS) {
      for (; n != end; ++n) f(*n);
      return;
    }
    const i32* begin = ++n;
    for (; n != end; ++n)
      for (u32 word = u32(*n); word; word &= word - 1) f(i32(32 * (n - begin)) + __builtin_ctz(word));
  }

  // The places of its nodes in the depth-first order of the trie.
  std::vector<i32> places(i32 position) {
    std::vector<i32> found;
    std::vector<u32> marks(width_, 0);
    nodes(position, [&](i32 n) { marks[trie_.order[n] / 32] |= 1u << trie_.order[n] % 32; });
    for (i32 w = 0; w < width_; ++w)
      for (u32 word = marks[w]; word; word &= word - 1) found.push_back(32 * w + __builtin_ctz(word));
    return found;
  }

  size_t size(i32 position) const { return position < singles_ ? 1 : made_[position - singles_].size; }

  bool has_root(i32 position) const { return has(position, ROOT); }

  // The nodes from which a token that goes on with one of these bytes may take so many tokens, at least 2, if that is written anew, and the
  // root; NONE if there are none. `number`: that of the set.
  i32 costly(i32 position, i32 tokens, const ByteSet& next, i32 number) {
    tokens = std::min<i32>(tokens, Trie::NEVER);
    Index::Key key{u64(number), u64(tokens), 3};
    i32 all = index_.find(key);
    if (all == NONE) {
      std::vector<i32> nodes{ROOT};
      for (int byte = 0; byte < 256; ++byte)
        for (i32 n : trie_.costly[byte])
          if (next.has(u8(byte)) && trie_.suffix_cost[n] >= tokens) nodes.push_back(trie_.parent[n]);
      index_.put(key, all = of(nodes));
    }
    return shared(position, all);
  }

  // The root, and the nodes that one of these bytes leads on from; NONE if there are none. `number`: that of the set.
  i32 before(i32 position, const ByteSet& bytes, i32 number) {
    return filtered(position, number, 5, [&](i32 n) {
      return std::any_of(trie_.byte.begin() + trie_.first[n], trie_.byte.begin() + trie_.first[n + 1], [&](u8 byte) { return bytes.has(byte); });
    });
  }

  // The nodes of two positions together; either may be NONE.
  i32 both(i32 a, i32 b) {
    if (a == NONE || a == b) return b;
    if (b == NONE) return a;
    return known(std::min(a, b), std::max(a, b), 0, [](i32 x, i32 y) { return x | y; });
  }

  // The nodes of `a` that `b` has not; NONE if there are none.
  i32 without(i32 a, i32 b) {
    if (a == NONE || b == NONE) return a;
    if (a == b) return NONE;
    return known(a, b, 1, [](i32 x, i32 y) { return x & ~y; });
  }

  // The nodes that two positions have; NONE if there are none.
  i32 shared(i32 a, i32 b) {
    if (a == NONE || b == NONE) return NONE;
    if (a == b) return a;
    if (std::pair(size(b), b) < std::pair(size(a), a)) std::swap(a, b);
    return known(a, b, 2, [](i32 x, i32 y) { return x & y; });
  }

  // The layers of a position: its nodes by the number of others of them that they are below.
  std::vector<i32> layered(i32 position) {
    if (position < singles_) return {position};
    if (!made_[position - singles_].layers.empty()) return made_[position - singles_].layers;
    std::vector<i32> places;
    nodes(position, [&](i32 n) { places.push_back(trie_.order[n]); });
    std::sort(places.begin(), places.end());
    std::vector<std::vector<i32>> layers;
    std::vector<i32> open;  // the first place after each node that the next may be below
    for (i32 place : places) {
      while (!open.empty() && open.back() <= place) open.pop_back();
      if (open.size() == layers.size()) layers.emplace_back();
      layers[open.size()].push_back(trie_.places[place].node);
      open.push_back(trie_.places[place].after);
    }
    std::vector<i32> found;
    for (auto& layer : layers) found.push_back(of(layer));
    return made_[position - singles_].layers = found;
  }

  const Trie& trie() const { return trie_; }
  i32 singles() const { return singles_; }
  size_t bytes() const { return sets_.bytes() + index_.bytes() + made_.size() * sizeof(Made); }

 private:
  struct Made {
    size_t size = 0;  // nodes
    std::vector<i32> layers;  // positions; empty: not yet
  };

  // Of a few nodes their list in order, of many a bit for each node of the trie, in words.
  static constexpr i32 BITS = NONE;

  // The bits of a position, after BITS; its own, or those of a few nodes in `room`.
  const i32* words_of(i32 position, std::vector<i32>& room) const {
    if (position >= singles_ && *sets_.begin(position - singles_) == BITS) return sets_.begin(position - singles_);
    room.assign(1 + width_, 0);
    nodes(position, [&](i32 n) { room[1 + n / 32] |= i32(1u << n % 32); });
    return room.data();
  }

  // The position of bits after BITS.
  i32 of_words(std::vector<i32>& words) {
    words[0] = BITS;
    size_t size = 0;
    for (size_t w = 1; w < words.size(); ++w) {  // by adding up ever more of its bits
      u32 bits = u32(words[w]);
      bits -= bits >> 1 & 0x55555555u;
      bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
      size += ((bits + (bits >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24;
    }
    if (size >= words.size()) return numbered(words, size);
    std::vector<i32> list;
    for (size_t w = 1; w < words.size(); ++w)
      for (u32 word = u32(words[w]); word; word &= word - 1) list.push_back(i32(32 * (w - 1)) + __builtin_ctz(word));
    return numbered(list, size);
  }

  i32 numbered(const std::vector<i32>& list, size_t size) {
    if (size < 2) return size ? list[0] : NONE;
    const i32 number = sets_.number(list);
    if (size_t(number) >= made_.size()) made_.resize(number + 1);
    made_[number].size = size;
    return singles_ + number;
  }

  // The position of what an operation makes of the words of two others.
  template <class F>
  i32 known(i32 a, i32 b, u64 what, F&& operation) {
    Index::Key key{u64(u32(a)), u64(u32(b)), what};
    i32 found = index_.find(key);
    if (found != NONE) return found - 1;
    const bool has_others = operation(0, 1);  // nodes that `a` has not
    if (size(a) + has_others * size(b) <= size_t(width_) / 4) {
      std::vector<i32> nodes;
      this->nodes(a, [&](i32 n) {
        if (operation(1, has(b, n))) nodes.push_back(n);
      });
      if (has_others) this->nodes(b, [&](i32 n) {
        if (!has(a, n)) nodes.push_back(n);
      });
      found = of(nodes);
    } else {
      std::vector<i32> words(1 + width_), room, others;
      const i32 *of_a = words_of(a, room), *of_b = words_of(b, others);
      for (i32 w = 1; w <= width_; ++w) words[w] = operation(of_a[w], of_b[w]);
      found = of_words(words);
    }
    index_.put(key, found + 1);
    return found;
  }

  // The root, and the nodes of a position that a condition keeps; `number`, `what`: those of the condition.
  template <class F>
  i32 filtered(i32 position, i32 number, u64 what, F&& keeps) {
    if (position < singles_) return position <= ROOT || keeps(position) ? position : NONE;
    Index::Key key{u64(u32(position)), u64(number), what};
    i32 found = index_.find(key);
    if (found != NONE) return found - 1;
    std::vector<i32> kept;
    nodes(position, [&](i32 n) {
      if (n == ROOT || keeps(n)) kept.push_back(n);
    });
    found = of(kept);
    index_.put(key, found + 1);
    return found;
  }

  const Trie& trie_;
  const i32 singles_, width_;  // single nodes; words of a bit for each of them
  Lists sets_;
  std::vector<Made> made_;
  Index index_;  // of operations
};

}  // namespace tractile
