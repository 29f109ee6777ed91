// Which bytes may come after the texts of a node: FOLLOW of the theory of parsing (Aho, Sethi, Ullman 1986, section 4.4), over all places
// where the nodes that were given use it. Most places in a token at which a name may end go on with letters only, which nothing that
// comes after it begins with: they need not be followed.
#pragma once

#include "program.h"

namespace tractile {

// Sets of bytes, each kept once and numbered: 0 is the empty one, 1 that of all bytes.
class ByteSets {
 public:
  ByteSets() {
    number(ByteSet());
    ByteSet all;
    all.put(0, 255);
    number(all);
  }

  i32 number(const ByteSet& set) {
    std::vector<i32> words;
    for (u64 word : set.bits) words.push_back(i32(u32(word))), words.push_back(i32(word >> 32));
    const i32 found = lists_.number(words);
    if (found == i32(sets_.size())) sets_.push_back(set);
    return found;
  }

  static constexpr i32 all() { return 1; }
  const ByteSet& operator[](i32 number) const { return sets_[number]; }
  size_t bytes() const { return lists_.bytes() + sets_.size() * sizeof(ByteSet); }

 private:
  Lists lists_;
  Stable<ByteSet> sets_;
};

class Follow {
 public:
  Follow(const Stable<Table>& tables, const Stable<Node>& nodes) : tables_(tables), nodes_(nodes) {}

  static constexpr i32 ANY = ByteSets::all();  // of nodes that no other uses

  // The number of the set of bytes that may follow a node now; nodes that are added later may let it grow.
  i32 of(i32 node) {
    update();
    About& about = all_[node];
    if (about.callers.empty()) return ANY;
    if (about.number == NONE) about.number = sets_.number(about.after);
    return about.number;
  }

  // The number of the set of bytes with which a node goes on: those that its texts begin with, and if it has the empty one, what may follow.
  i32 next(i32 node) {
    const i32 follow = of(node);
    About& about = all_[node];
    if (about.next == NONE) {
      ByteSet bytes = about.first;
      if (about.nothing) bytes.put(sets_[follow]);
      about.next = sets_.number(bytes);
    }
    return about.next;
  }

  // The bytes that a nonempty text of a node may end with, and perhaps others.
  const ByteSet& last(i32 node) { return update(), all_[node].last; }

  bool has_empty_text(i32 node) { return update(), all_[node].nothing; }

  const ByteSet& bytes_of(i32 number) const { return sets_[number]; }
  size_t bytes() const { return all_.size() * sizeof(About) + sets_.bytes(); }

 private:
  struct About {
    ByteSet first, last, after;  // the bytes that its texts begin and end with, and those that may follow
    bool nothing = false;  // whether the empty text is one of its
    i32 number = NONE, next = NONE;  // of `after`, and of what `next` says; NONE: not yet
    std::vector<i32> callers;
  };

  // Bring the FOLLOW sets up to date with nodes that were added, and rules that were defined, since the last call.
  void update() {
    if (all_.size() == nodes_.size() && undefined_.empty()) return;
    std::vector<i32> added, given;
    given.swap(undefined_);
    for (i32 node = i32(all_.size()); node < i32(nodes_.size()); ++node) given.push_back(node);
    while (all_.size() < nodes_.size()) all_.emplace_back();
    for (i32 node : given) add(node, added);
    std::vector<i32> todo = added, spread = added;
    while (!todo.empty()) {
      const i32 node = todo.back();
      todo.pop_back();
      if (!begin(node)) continue;
      todo.insert(todo.end(), all_[node].callers.begin(), all_[node].callers.end());
      spread.insert(spread.end(), all_[node].callers.begin(), all_[node].callers.end());
    }
    for (todo.swap(spread); !todo.empty();) {
      const i32 node = todo.back();
      todo.pop_back();
      give(node, todo);
    }
  }

  void add(i32 node, std::vector<i32>& added) {
    const Node& n = nodes_[node];
    if (n.kind == RULE && n.parts.empty()) return undefined_.push_back(node);
    added.push_back(node);
    for (i32 part : n.parts)
      if (all_[part].callers.empty() || all_[part].callers.back() != node) all_[part].callers.push_back(node);
  }

  // Compute FIRST and LAST of a node, and whether it has the empty text, from its parts; return whether one of them grew.
  bool begin(i32 node) {
    const Node& n = nodes_[node];
    About& about = all_[node];
    ByteSet first, last;
    bool nothing = true, open = true;  // `open`: whether what was looked at, from the end on, may be empty
    auto in_turn = [&](i32 part) {
      if (nothing) first.put(all_[part].first), nothing = all_[part].nothing;
    };
    auto backwards = [&](i32 part) {
      if (open) last.put(all_[part].last), open = all_[part].nothing;
    };
    for (i32 table : n.tables) last.put(tables_[table].last);
    if (n.kind == LEX || n.kind == COUNT) {
      first.put(tables_[n.tables[0]].first);
      nothing = tables_[n.tables[0]].label[0] >= 0;
    } else if (n.kind == BAG) {
      first.put(tables_[n.tables[0]].first);
      for (i32 part : n.parts) last.put(all_[part].last);
      nothing = n.low <= 0;
    } else if (n.kind == SEQ) {
      for (i32 part : n.parts) in_turn(part);
      for (size_t i = n.parts.size(); i-- > 0;) backwards(n.parts[i]);
    } else if (n.kind == REPEAT) {
      for (i32 part : n.parts) in_turn(part), backwards(part);
      nothing = nothing || n.low <= 0 || all_[n.parts[0]].nothing;
    } else {
      nothing = false;
      for (i32 part : n.parts) first.put(all_[part].first), last.put(all_[part].last), nothing = nothing || all_[part].nothing;
    }
    const bool grown = nothing && !about.nothing;
    about.nothing = about.nothing || nothing;
    const bool ends = about.last.put(last);
    if (about.first.put(first) || grown) return about.next = NONE, true;
    return ends;
  }

  // Add to the FOLLOW sets of a node's parts what follows them in it; parts whose sets grew are put into `todo`.
  void give(i32 node, std::vector<i32>& todo) {
    const Node& n = nodes_[node];
    auto follows = [&](i32 part, const ByteSet& bytes) {
      if (!all_[part].after.put(bytes)) return;
      all_[part].number = all_[part].next = NONE;
      todo.push_back(part);
    };
    ByteSet after = all_[node].after;
    if (n.kind == SEQ) {
      for (size_t i = n.parts.size(); i-- > 0;) {
        follows(n.parts[i], after);
        if (!all_[n.parts[i]].nothing) after = ByteSet();
        after.put(all_[n.parts[i]].first);
      }
      return;
    }
    if (n.kind == REPEAT) {
      const About &item = all_[n.parts[0]], &between = all_[n.parts[1]];
      ByteSet next = item.first;
      if (item.nothing) next.put(between.first);
      next.put(after);
      follows(n.parts[1], next);
      if (n.high != 1) {  // more than one item
        after.put(between.first);
        if (between.nothing) after.put(item.first);
      }
      return follows(n.parts[0], after);
    }
    if (n.kind == BAG)
      for (i32 table : n.tables) after.put(tables_[table].first);
    for (i32 part : n.parts) follows(part, after);
  }

  const Stable<Table>& tables_;
  const Stable<Node>& nodes_;
  Stable<About> all_;  // by node
  std::vector<i32> undefined_;  // rules
  ByteSets sets_;
};

}  // namespace tractile
