// The names of an object's members: see `constraints/json/nodes/names.py`.
#pragma once

#include "leaf.h"
#include "tries.h"

namespace tractile::automata {

// Names, from the byte after the opening quote to the colon. The label of a state is that of the name that ends there.
struct Inside : std::enable_shared_from_this<Inside> {
  using Edges = std::vector<Leaf::Edge>;
  Edges edges;  // in order, as of a Leaf
  std::vector<i32> label;
  i32 root = 0;
  std::shared_ptr<Inside> base;
  std::vector<i32> in_base;
  std::vector<u8> apart;

  static void too_many(i64 states) {
    if (states > MOST_NAMES) throw TooManyStates(MOST_NAMES, "the names of an object take too many states");
  }

  void sort() {
    std::stable_sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) { return a.source != b.source ? a.source < b.source : a.low < b.low; });
  }

  // What closes names: at each state that ends one the closing byte, then `joint`. `last`: the label and the states before it.
  void close(const std::vector<std::pair<i32, std::vector<i32>>>& last, u8 closing, const std::string& joint) {
    for (const auto& [name, states] : last) {
      for (i32 state : states) edges.push_back({state, closing, closing, i32(label.size())});
      for (char byte : joint) {
        const i32 here = i32(label.size());
        edges.push_back({here, u8(byte), u8(byte), here + 1});
        label.push_back(NONE);
      }
      label.push_back(name);
    }
  }

  // Leave out states that lead nowhere. Returns whether a name is left.
  bool trim() {
    const size_t states = label.size();
    std::vector<i32> end(states + 1, 0), before(edges.size()), todo;
    for (const auto& e : edges) ++end[size_t(e.target) + 1];
    for (size_t s = 0; s < states; ++s) end[s + 1] += end[s];
    std::vector<i32> at(end.begin(), end.end() - 1), place(states, NONE);
    for (const auto& e : edges) before[size_t(at[size_t(e.target)]++)] = e.source;
    std::vector<u8> useful(states, 0);
    for (size_t s = 0; s < states; ++s)
      if (label[s] >= 0) useful[s] = 1, todo.push_back(i32(s));
    for (size_t i = 0; i < todo.size(); ++i)
      for (i32 b = end[size_t(todo[i])]; b < end[size_t(todo[i]) + 1]; ++b)
        if (!std::exchange(useful[size_t(before[size_t(b)])], 1)) todo.push_back(before[size_t(b)]);
    if (!useful[size_t(root)]) return false;
    i32 count = 0;
    for (size_t s = 0; s < states; ++s)
      if (useful[s]) {
        place[s] = count;
        label[size_t(count)] = label[s];
        if (base) in_base[size_t(count)] = in_base[s], apart[size_t(count)] = apart[s];
        ++count;
      }
    label.resize(size_t(count));
    if (base) in_base.resize(size_t(count)), apart.resize(size_t(count));
    Edges kept;
    for (const auto& e : edges)
      if (useful[size_t(e.source)] && useful[size_t(e.target)]) kept.push_back({place[size_t(e.source)], e.low, e.high, place[size_t(e.target)]});
    edges = std::move(kept);
    root = place[size_t(root)];
    return true;
  }

  // The edges of a state; they are in order.
  std::pair<Edges::const_iterator, Edges::const_iterator> of(i32 state) const {
    auto begin = std::lower_bound(edges.begin(), edges.end(), state, [](const Leaf::Edge& e, i32 s) { return e.source < s; });
    auto end = begin;
    while (end != edges.end() && end->source == state) ++end;
    return {begin, end};
  }

  i32 after(i32 state, u8 byte) const {
    for (auto [e, end] = of(state); e != end; ++e)
      if (e->low <= byte && byte <= e->high) return e->target;
    return NONE;
  }
};

using Names = std::shared_ptr<Inside>;

// The names that some automata read, each labelled by the first that reads it; null if there are none.
inline Names names_of(const std::vector<Handle>& parts, u8 closing, const std::string& joint) {
  i64 total = 0;
  for (const auto& part : parts) total += part->states();
  Inside::too_many(total);
  auto made = std::make_shared<Inside>();
  std::vector<std::pair<i32, std::vector<i32>>> last;
  try {
    Together all = together(parts, MOST_NAMES);
    made->label.assign(size_t(all.nfa.states()), NONE);
    for (i32 s = 0; s < all.nfa.states(); ++s) {
      for (const Move& move : all.nfa.row(s)) made->edges.push_back({s, move.low, move.high, move.to});
      if (all.reads[size_t(s)].empty()) continue;
      const i32 name = all.reads[size_t(s)][0];
      auto known = std::find_if(last.begin(), last.end(), [&](const auto& each) { return each.first == name; });
      if (known == last.end()) known = last.insert(last.end(), {name, {}});
      known->second.push_back(s);
    }
  } catch (const TooManyStates&) {
    Inside::too_many(MOST_NAMES + 1);
  }
  made->close(last, closing, joint);
  made->sort();
  return made->trim() ? made : nullptr;
}

// The trie of some names on top of those of a base, which may be null. `labels`: of each name its label, NONE if it is not to be read. Those
// of the base come after `live` labels. Null if there is no name.
inline Names inside(const std::vector<std::vector<u32>>& texts, const std::vector<i32>& labels, i32 live, const Names& base, Letters& letters, u8 closing,
                    const std::string& joint) {
  TextTrie trie(texts, letters);
  if (!base && trie.ends.empty()) return nullptr;
  const i32 size = base ? i32(base->label.size()) : 0, nodes = i32(trie.children.size());
  Inside::too_many(i64(size) + nodes);
  auto made = std::make_shared<Inside>();
  for (i32 node = 0; node < nodes; ++node)
    for (auto [byte, to] : trie.children[size_t(node)]) made->edges.push_back({node, byte, byte, to});
  made->label.assign(size_t(nodes), NONE);
  std::vector<std::pair<i32, std::vector<i32>>> last;
  for (auto [node, text] : trie.ends)
    if (labels[size_t(text)] != NONE) last.push_back({labels[size_t(text)], {node}});
  made->close(last, closing, joint);
  if (!base) {
    made->sort();
    return made;
  }
  // the trie's states behind those of the base; each has also the edges of its state there, but for the bytes that are its own
  const i32 own = i32(made->label.size());
  std::vector<i32> there(size_t(own), NONE);
  there[0] = base->root;
  for (i32 node = 0; node < nodes; ++node)
    for (auto [byte, to] : trie.children[size_t(node)]) there[size_t(to)] = there[size_t(node)] != NONE ? base->after(there[size_t(node)], byte) : NONE;
  std::vector<u8> is_end(size_t(nodes), 0);
  for (auto [node, text] : trie.ends) is_end[size_t(node)] = 1;
  made->sort();
  Inside::Edges edges = base->edges;  // in order, as are those that follow
  auto mine = made->edges.cbegin();
  for (i32 node = 0; node < own; ++node) {
    const auto row = i64(edges.size());
    std::vector<i32> taken;  // the bytes that the state reads otherwise than the base
    for (; mine != made->edges.cend() && mine->source == node; ++mine) taken.push_back(mine->low), edges.push_back({node + size, mine->low, mine->high, mine->target + size});
    if (there[size_t(node)] == NONE) continue;
    if (is_end[size_t(node)]) taken.insert(std::lower_bound(taken.begin(), taken.end(), closing), closing);
    const auto others = i64(edges.size());
    for (auto [e, end] = base->of(there[size_t(node)]); e != end; ++e) {
      i32 low = e->low;
      for (auto byte = std::lower_bound(taken.begin(), taken.end(), low); byte != taken.end() && *byte <= e->high; low = *byte++ + 1)
        if (low < *byte) edges.push_back({node + size, low, *byte - 1, e->target});
      if (low <= e->high) edges.push_back({node + size, low, e->high, e->target});
    }
    std::inplace_merge(edges.begin() + row, edges.begin() + others, edges.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  }
  made->edges = std::move(edges);
  std::vector<i32> label(size_t(size), NONE);
  for (i32 s = 0; s < size; ++s)
    if (base->label[size_t(s)] >= 0) label[size_t(s)] = base->label[size_t(s)] + live;
  label.insert(label.end(), made->label.begin(), made->label.end());
  made->label = std::move(label);
  made->root = size;
  made->base = base;
  for (i32 s = 0; s < size; ++s) made->in_base.push_back(s);
  made->in_base.insert(made->in_base.end(), there.begin(), there.end());
  made->apart.assign(size_t(size), 0);
  made->apart.resize(size_t(size + own), 1);
  if (last.size() != trie.ends.size() && !made->trim()) return nullptr;
  return made;
}

// How an object's members begin: a text, white space of at most `blank` characters (NONE: any number), the opening byte of a name, if any.
struct Opening {
  std::string before;
  i32 blank;
  std::vector<std::string> bytes;  // by spelling
};

// The table of what stands before a name, its opening byte and the rest, in each spelling. `labels`: what to write in place of each label, if
// not null. `others`: labels of members whose name is no part of the table: they are read where a name begins. `base`: the table of the base
// of the only part, if it has one.
inline LeafHandle names_table(const std::vector<Names>& parts, const Opening& opening, const std::vector<i32>* labels, const std::vector<i32>& others,
                              const LeafHandle& base) {
  Leaf leaf;
  const i32 length = i32(opening.before.size());
  for (i32 i = 0; i < length; ++i) leaf.edges.push_back({i, u8(opening.before[size_t(i)]), u8(opening.before[size_t(i)]), i + 1});
  std::vector<i32> ends = {length};
  for (i32 i = 0; i < opening.blank; ++i) ends.push_back(length + 1 + i);
  for (size_t i = 0; i + 1 < ends.size() || (opening.blank == NONE && i == 0); ++i)
    for (u8 byte : {' ', '\t', '\n', '\r'}) leaf.edges.push_back({ends[i], byte, byte, i + 1 < ends.size() ? ends[i + 1] : ends[i]});
  const i32 begun = length + i32(ends.size());
  i32 size = begun;
  leaf.label.assign(size_t(size), NONE);
  leaf.label.insert(leaf.label.end(), others.begin(), others.end());
  const Inside::Edges start = leaf.edges;
  for (size_t i = 0; i < others.size(); ++i)
    for (const auto& e : start)
      if (std::find(ends.begin(), ends.end(), e.target) != ends.end()) leaf.edges.push_back({e.source, e.low, e.high, size + i32(i)});
  size += i32(others.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) continue;
    const Inside& part = *parts[i];
    for (i32 end : ends) {
      for (char byte : opening.bytes[i]) leaf.edges.push_back({end, u8(byte), u8(byte), size + part.root});
      if (opening.bytes[i].empty())  // the name begins at once
        for (auto [e, last] = part.of(part.root); e != last; ++e) leaf.edges.push_back({end, e->low, e->high, size + e->target});
    }
    for (const auto& e : part.edges) leaf.edges.push_back({e.source + size, e.low, e.high, e.target + size});
    for (i32 each : part.label) leaf.label.push_back(labels && each >= 0 ? labels->at(size_t(each)) : each);
    size += i32(part.label.size());
  }
  if (base) {
    const Inside& only = *parts[0];
    for (i32 s = 0; s < begun; ++s) leaf.in_base.push_back(s);
    for (i32 s : only.in_base) leaf.in_base.push_back(s < 0 ? NONE : s + begun);
    leaf.apart.assign(size_t(begun), 1);
    leaf.apart.insert(leaf.apart.end(), only.apart.begin(), only.apart.end());
    leaf.base = base;
  }
  return interned(std::move(leaf));
}

}  // namespace tractile::automata
