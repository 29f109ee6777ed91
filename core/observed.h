// Distances where observers look at bytes: between what the frames say, which do not see them, and a text that is found.
//
//     below     the distance by frames (`crossing.h`), for which WITHIN, APART and ITEM take anything
//     above     the same, where each observer takes one text; and the bytes of a text, where each byte is a token
//     exactly   a search over tokens (`search.h`), where neither tells: the distance by frames leads it
//
// The text of an observer stays the same while it is read: an item on its way keeps what is left of it, so that a token of the text is
// a step towards the end.
#pragma once

#include "bytes.h"
#include "crossing.h"
#include "distinct.h"
#include "search.h"

namespace tractile {

class Observed {
 public:
  Distinct distinct;

  Observed(Stacks& stacks, Positions& positions, Crossing& crossing)
      : distinct(stacks.observers, positions.trie()),
        stacks_(stacks),
        trie_(positions.trie()),
        crossing_(crossing),
        one_text_(crossing, [this](i32 node) { return text_node(node); }),
        frames_(stacks),
        ends_(stacks, [this](i32 node) { return of_node(node); }) {}

  // Whether observers of bytes are open, or may come.
  bool looks(Item item) { return stacks_.observers.looks(item.env) || looks(item.stack); }

  // The bytes of some text from an item to the end, ENDLESS if there is none.
  i64 bytes(Item item) {
    if (!stacks_.observers.looks(item.env)) return ends_.of_stack(item.stack);
    Parted at = parted(item);
    const Way& found = way(at);
    return found.text ? std::min(ENDLESS, i64(found.text->bytes.size()) + bytes(at.below)) : ENDLESS;
  }

  // The bytes of some text of a frame and of the `below` bytes under it, where no observers of bytes are open or may come.
  i64 bytes_of(i32 node, u64 reg, i64 below) { return std::min(ENDLESS - 1, ends_.of_frame(node, reg) + below); }

  // The fewest tokens from an item to the end, if they are at most `most`, otherwise more; `exactly`: not a bound that is enough.
  i32 fewest(Item item, i32 most, bool spelled, bool exactly) {
    if (most == FAR) return !looks(item) || bytes(item) < ENDLESS ? 0 : FAR + 1;
    if (!exactly && spelled && !stacks_.observers.looks(item.env))  // as many bytes, each of which is a token
      if (i64 enough = bytes(item); enough <= most) return i32(enough);
    i32 least = crossing_.rest(item.stack, Positions::ROOT, stacks_.observers.budgets(item.env), most, spelled);
    if (least > most || !looks(item)) return least;
    i64 enough = spelled ? bytes(item) : ENDLESS;
    if (spelled && enough >= ENDLESS) return FAR;
    if (!exactly && enough <= most) return i32(enough);
    i32 written = tokens(item, most, spelled);
    if (written <= (exactly ? least : most)) return written;
    i64 found = std::min<i64>({FAR, enough, written});
    if (may_search <= 0) {
      refused = true;
    } else {
      const Exact& exact = by_search(item, most, exactly ? least : most, spelled);
      may_search -= exact.taken;
      if (exact.text) found = std::min<i64>(found, exact.text->cost);
    }
    return i32(found);
  }

  // Let searches by tokens take so many items, but for the last; those that are known count as well, so that what is found does not
  // depend on them.
  void allow(i64 items) { may_search = items, refused = false; }
  i64 may_search = ENDLESS;
  bool refused = false;  // whether an answer was not sought

  // A text by which an item with open observers is at most `most` tokens from the end, where `fewest` found that it is.
  const Text& witness(Item item, i32 most, bool spelled) {
    if ((spelled && (most == FAR || bytes(item) <= most)) || tokens(item, most, spelled) <= most) return *way(parted(item)).text;
    return *by_search(item, most, most, spelled).text;
  }

  size_t bytes() const { return ends_.bytes() + one_text_.bytes() + index_.bytes() + exact_index_.bytes() + ways_.size() * sizeof(Way) + exact_.size() * sizeof(Exact) + written_; }

 private:
  struct Exact {
    std::optional<Text> text;
    i64 taken;  // items
  };
  struct Way {
    std::optional<Text> text;
    i32 node = NONE, from = 0;  // as LEX, which reads it from this state on; NONE: not yet
    const Way* of = nullptr;    // the rest of this one, from that byte on, which is written where it is wanted
  };
  struct Parted {  // an item, parted at the outermost observer that looks at bytes
    i32 node;      // the observer; NONE if it is that of several stacks
    Item inside, below;
  };

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
    std::vector<i32> reached;
    bool found = reaches(stacks_.nodes, node, reached, [](const Node& n) { return n.looks(); });
    if (!found)
      for (i32 each : reached) nodes_[each] = 0;
    nodes_[node] = found;
    return found;
  }

  Parted parted(Item item) {
    std::vector<i32> open, frames;
    i32 outer = item.env;
    for (i32 e = item.env; e; e = stacks_.observers.top(e).outer) {
      frames.push_back(e);
      if (stacks_.observers.kind(e) == TOKENS) continue;
      open = frames;
      outer = stacks_.observers.top(e).outer;
    }
    frames.clear();
    Parted found{NONE, {NONE, 0}, {item.stack, outer}};
    for (size_t left = open.size(); left; found.below.stack = stacks_.frame(found.below.stack).below) {
      frames.push_back(found.below.stack);
      found.node = stacks_.frame(found.below.stack).node;
      if (found.node == JOIN) return {NONE, item, {NONE, 0}};  // its stacks share no frame
      left -= stacks_.nodes[found.node].kind >= WITHIN;
    }
    for (; !frames.empty(); frames.pop_back()) {
      Frame f = stacks_.frame(frames.back());
      found.inside.stack = stacks_.push(f.node, f.reg, found.inside.stack);
    }
    for (; !open.empty(); open.pop_back()) found.inside.env = stacks_.observers.within(open.back(), found.inside.env);
    return found;
  }

  // A text from what is inside an observer to its end: what is left of the observer's text where that leads there, else one of its own.
  // That of a stack without texts of items will do for others, as far as all differ.
  Way& way(const Parted& at) {
    follow(at.node);
    i32 known = index_.find(key_of(at.inside));
    if (known != NONE) {
      Way& found = ways_[known];
      if (!found.text && found.of) found.text = rest_of(*found.of->text, size_t(found.from), at.inside.env);
      return found;
    }
    i32 plain = stacks_.observers.without_texts(at.inside.env);
    if (plain != at.inside.env) {
      Way& shared = alone({at.inside.stack, plain});
      if (shared.text && distinct.serves(at.inside.env, *shared.text)) {
        index_.put(key_of(at.inside), index_.find(key_of({at.inside.stack, plain})));
        return shared;
      }
    }
    return alone(at.inside);
  }

  // Keep, of each item that the text of an observer leads through, the rest of the text.
  void follow(i32 node) {
    Index::Key key{u64(u32(node)), 0, 2};
    if (node == NONE || has_budgets(node) || index_.find(key) != NONE) return;
    Way& entered = this->entered(node);
    if (entered.text) {
      const std::string& text = entered.text->bytes;
      std::vector<i32> read{stacks_.start(node)};
      for (char c : text) read.push_back(stacks_.step(read.back(), u8(c)));
      i32 next = read.back();
      for (size_t at = text.size(); at-- > 0;) {  // of each place the items from which the rest leads to the end
        std::vector<Item> reading = stacks_.configurations[read[at]].reading, found;
        for (Item item : reading)
          if (meet(stacks_.step(stacks_.numbered({item}, false), u8(text[at])), next, at + 1 == text.size())) found.push_back(item);
        next = stacks_.numbered(found, false);
        for (Item item : found)
          if (index_.find(key_of(item)) == NONE) {
            index_.put(key_of(item), i32(ways_.size()));
            ways_.push_back({std::nullopt, lex(entered), i32(at), &entered});
          }
      }
    }
    index_.put(key, 0);
  }

  // Whether two configurations have an item in common; `ends`: whether both are at the end.
  bool meet(i32 a, i32 b, bool ends) const {
    if (a == NONE || b == NONE) return false;
    const Configuration &one = stacks_.configurations[a], &other = stacks_.configurations[b];
    if (ends) return one.accepting && other.accepting;
    std::vector<Item> both;
    std::set_intersection(one.reading.begin(), one.reading.end(), other.reading.begin(), other.reading.end(), std::back_inserter(both));
    return !both.empty();
  }

  // What is left of a text where an item is on its way.
  Text rest_of(const Text& text, size_t from, i32 env) {
    Text found{text.cost - i32(from), text.bytes.substr(from), {}, {}};
    const std::vector<i32>& open = stacks_.observers.memory(env).open;
    size_t between = 0;  // open items of which some but not all is read
    for (auto [begin, end] : text.items) between += begin < from && from < end;
    bool entered = open.size() > between && open.front() == 0;  // the innermost, of which nothing is read
    bool ended = open.size() > between && !entered;             // the innermost, of which all is read
    for (auto [begin, end] : text.items) {
      if ((begin < from && from < end) || (ended && begin < from && from == end) || (entered && begin == from)) found.open.push_back(end - from);
      else if (begin >= from) found.items.push_back({begin - from, end - from});
    }
    return found;
  }

  // A text of a node that looks at bytes.
  Way& entered(i32 node) { return alone({stacks_.push(node, stacks_.first(node), NONE), 0}); }

  static Index::Key key_of(Item item) { return {u64(u32(item.stack)), u64(u32(item.env)), 0}; }

  Way& alone(Item item) {
    i32 known = index_.find(key_of(item));
    if (known == NONE) {
      Search search(stacks_, trie_, frames_);
      Exact found = searched(search, item);
      index_.put(key_of(item), known = i32(ways_.size()));
      ways_.push_back({std::move(found.text)});
    }
    return ways_[known];
  }

  Exact searched(Search& search, Item item) {
    crossing_.check();
    std::optional<Text> found = search.text(item);
    crossing_.taken += search.taken;
    return {std::move(found), i64(search.taken)};
  }

  // A text of at most `most` tokens. That of a stack without texts of items will do for others if it has `enough`, as far as all differ.
  const Exact& by_search(Item item, i32 most, i32 enough, bool spelled) {
    i32 plain = stacks_.observers.without_texts(item.env);
    if (plain != item.env) {
      const Exact& shared = by_search(Item{item.stack, plain}, most, spelled);
      if (shared.text && shared.text->cost <= enough && distinct.serves(item.env, *shared.text)) return shared;
    }
    return by_search(item, most, spelled);
  }

  const Exact& by_search(Item item, i32 most, bool spelled) {
    Index::Key key{u64(u32(item.stack)), u64(u32(item.env)), u64(most) << 1 | spelled};
    i32 known = exact_index_.find(key);
    if (known == NONE) {
      Search search(stacks_, trie_, frames_, crossing_, most, spelled);
      Exact found = searched(search, item);
      exact_index_.put(key, known = i32(exact_.size()));
      exact_.push_back(std::move(found));
    }
    return exact_[known];
  }

  // The fewest tokens to the end on which each observer takes one text; FAR if they are more than `most`.
  i32 tokens(Item item, i32 most, bool spelled) {
    if (stacks_.observers.looks(item.env)) {
      Parted at = parted(item);
      if (!spelled && (at.node == NONE || has_budgets(at.node))) return FAR;
      Way& found = way(at);
      if (!found.text) return FAR;
      i32 node = lex(found);
      item = {stacks_.push(node, u64(u32(found.from)), at.below.stack), at.below.env};
    }
    i32 found = one_text_.rest(item.stack, Positions::ROOT, stacks_.observers.budgets(item.env), most, spelled);
    return found <= most ? found : FAR;
  }

  // A LEX node of one text of a node that looks at bytes, NONE if it has none, or if its parts have budgets.
  i32 text_node(i32 node) {
    if (has_budgets(node)) return NONE;
    Way& found = entered(node);
    return found.text ? lex(found) : NONE;
  }

  // Whether parts of a node have budgets.
  bool has_budgets(i32 node) {
    if (budgets_.size() < stacks_.nodes.size()) budgets_.resize(stacks_.nodes.size(), NONE);
    std::vector<i32> reached;
    if (budgets_[node] == NONE) budgets_[node] = reaches(stacks_.nodes, node, reached, [](const Node& n) { return n.kind == TOKENS; });
    return budgets_[node];
  }

  // The node that reads a text.
  i32 lex(Way& way) {
    if (way.node != NONE) return way.node;
    const std::string& bytes = way.text->bytes;
    std::vector<i32> edges, label(bytes.size() + 1, NONE);
    for (size_t at = 0; at < bytes.size(); ++at) edges.insert(edges.end(), {i32(at), u8(bytes[at]), u8(bytes[at]), i32(at) + 1});
    label.back() = 0;
    stacks_.tables.push_back(Table::of(edges.data(), bytes.size(), label, std::vector<u8>(label.size(), 1)));
    Node made;
    made.kind = LEX;
    made.tables = {i32(stacks_.tables.size() - 1)};
    written_ += sizeof(Table) + sizeof(Node) + 4 * stacks_.tables.back().next.size() + 40 * label.size();
    stacks_.nodes.push_back(std::move(made));
    return way.node = i32(stacks_.nodes.size() - 1);
  }

  // The bytes of an observer's node.
  i64 of_node(i32 node) {
    Way& found = entered(node);
    return found.text ? i64(found.text->bytes.size()) : ENDLESS;
  }

  Stacks& stacks_;
  const Trie& trie_;
  Crossing& crossing_;
  Crossing one_text_;  // where each observer takes one text
  Bytes frames_;  // where observers take anything
  Bytes ends_;
  std::vector<i32> looking_, nodes_, budgets_;  // by stack, by node, by node; NONE: not yet
  Index index_, exact_index_;
  Stable<Way> ways_;
  Stable<Exact> exact_;
  size_t written_ = 0;  // bytes of nodes of texts
};

}  // namespace tractile
