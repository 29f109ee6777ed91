// Distances where observers look at bytes. Tables of WITHIN are part of the places of `crossing.h`, items that must differ are not: of
// those frames tell a lower bound, and some text that is found an upper one.
//
//     below     the distance by frames (`crossing.h`), for which APART takes anything
//     above     the same, where APART takes one text; and the bytes of a text, where each byte is a token
//
// Whether there is an end at all is exact: a search (`search.h`) finds a text or ends without one. Where only tables are open and it
// takes long, the distance in bytes by frames tells.
#pragma once

#include "breaks.h"
#include "bytes.h"
#include "crossing.h"
#include "distinct.h"
#include "search.h"
#include "short_texts.h"

namespace tractile {

class Observed {
 public:
  Distinct distinct;

  Observed(Stacks& stacks, Positions& positions, Lexer& lexer, Crossing& crossing)
      : distinct(stacks.observers, positions.trie()),
        stacks_(stacks),
        trie_(positions.trie()),
        crossing_(crossing),
        byte_positions_(Trie::of_bytes()),
        byte_lexer_(stacks.tables, stacks.observers, byte_positions_, MUCH),
        one_text_(crossing, positions, lexer, [this](i32 node) { return text_node(node); }),
        by_bytes_(crossing, byte_positions_, byte_lexer_, nullptr),
        in_every_order_(crossing, byte_positions_, byte_lexer_, nullptr, true),
        tokens_in_every_order_(crossing, positions, lexer, [](i32 node) { return node; }, true),
        least_(stacks, Bytes::LEAST),
        frames_(stacks, Bytes::BYTES),
        ends_(stacks, Bytes::BYTES, [this](i32 node) { return entered(node).bytes; }),
        short_(stacks, ends_, crossing, positions.trie()) {}

  // Whether observers of bytes are open, or may come.
  bool looks(Item item) { return stacks_.observers.looks(item.env) || reaches_kind(item.stack, LOOKS); }

  // The bytes of some text from an item to the end, ENDLESS if there is none.
  i64 bytes(Item item) {
    if (!stacks_.observers.looks(item.env)) return ends_.of_stack(item.stack);
    Split at = split(item);
    i64 found = way(at.inside).bytes;
    return found < ENDLESS ? std::min(ENDLESS, found + bytes(at.below)) : ENDLESS;
  }

  // The bytes of some text of a frame and of the `below` bytes under it, where no observers of bytes are open or may come.
  i64 bytes_of(i32 node, u64 reg, i64 below) { return std::min(ENDLESS - 1, ends_.of_frame(node, reg) + below); }

  // The tokens of a short text from an item to the end, where those beyond `first` matter; FAR if none of at most `most` is known.
  i32 bound(Item item, i32 first, i32 most) {
    i32 found = FAR;
    if (looks(item)) return found;
    first = std::max(first, crossing_.least(item.stack));
    const i32 last = std::min(most, std::max(first, crossing_.least(item.stack) + MOST_ABOVE));
    for (i32 more = 0; found > first && more <= MOST_MORE; ++more)
      for (i32 wanted = first; found > wanted && wanted <= last; ++wanted) found = std::min(found, short_.tokens(item.stack, more, wanted));
    return found;
  }

  // The fewest tokens from an item to the end, if they are at most `most`, otherwise more; `exactly`: not a bound that is enough. Of
  // items that must differ it may be an upper bound.
  i32 fewest(Item item, i32 most, bool spelled, bool exactly) {
    if (most == FAR) return !looks(item) || bytes(item) < ENDLESS ? 0 : FAR + 1;
    if (most < FAR / 2 && least_.of_stack(item.stack) > i64(most) * trie_.deepest) return FAR;
    const bool open = stacks_.observers.looks(item.env);
    i64 enough = spelled && (open || !exactly || looks(item)) ? bytes(item) : ENDLESS;
    if (spelled && enough >= ENDLESS && looks(item)) return FAR;
    if (!exactly && enough <= most) return i32(enough);  // as many bytes, each of which is a token
    const i32 lower = spelled ? crossing_.least(item.stack) : 0;
    if (lower > most) return FAR;
    const i32 first = exactly ? lower : most, bound = spelled ? this->bound(item, first, most) : FAR;
    if (bound <= first) return bound;
    auto by_frames = [&](Crossing& crossing) {
      return crossing.rest(item.stack, Positions::ROOT, stacks_.observers.budgets(item.env), stacks_.observers.tables(item.env), std::min(most, bound - 1), spelled);
    };
    i32 least = std::min(bound, by_frames(crossing_));
    // whether there is an end at all does not rest on the orders that were tried, nor does a mask where some texts are no tokens
    if (least > most && (most >= FAR / 2 || !spelled) && reaches_kind(item.stack, ORDERS)) least = by_frames(tokens_in_every_order_);
    if (least > most || !is_apart(item)) return least;
    i32 written = tokens(item, most, spelled);
    if (written <= (exactly ? least : most)) return written;
    const Sought& sought = by_tokens(item, most, spelled);
    left_ -= i64(sought.taken);
    if (most == SOME && sought.gave_up && std::min<i64>(enough, written) >= FAR) gave_up();  // whether there is an end at all is not known
    return i32(std::min<i64>({FAR, enough, written, sought.tokens}));
  }

  // Let the searches by tokens of a mask take so many states; those that are known count as well, so that what is found does not depend on
  // what was asked before.
  void allow(i64 states) { left_ = states; }

  // A text from an item with open observers to the end, by which it is at most `most` tokens from there if `fewest` found that it is.
  Text witness(Item item, i32 most = FAR, bool spelled = true) {
    Way& known = way(split(item).inside);
    if (most == FAR || (spelled && bytes(item) <= most) || tokens(item, most, spelled) <= most) return text_of(known);
    const Sought& found = by_tokens(item, most, spelled);
    return found.tokens <= most ? Text::of(found.symbols, 0) : text_of(known);
  }

  // The tokens of a text that a search found for an item, at most `most`; none if none did.
  std::vector<std::string> written(Item item, i32 most, bool spelled) {
    std::vector<std::string> found;
    if (!is_apart(item) || fewest(item, most, spelled, true) > most) return found;
    const Sought& sought = by_tokens(item, most, spelled);
    if (sought.tokens > most) return found;
    std::string token;
    for (i32 symbol : sought.symbols)
      if (symbol < Text::ITEM_BEGINS) token += char(u8(symbol));
      else if (symbol == Text::TOKEN_ENDS) found.push_back(std::exchange(token, ""));
    return found;
  }

  // Set the witness of `after`, to which the first `size` bytes of the witness of `item` lead, to the rest of that witness.
  void follow(Item item, size_t size, Item after) {
    const Item inside = split(after).inside;
    size_t read = 0;  // bytes
    for (const Way* at = &way(split(item).inside); at; at = wholes_[at->whole].next == NONE ? nullptr : &ways_[wholes_[at->whole].next]) {
      const Whole& whole = wholes_[at->whole];
      for (size_t i = at->from, next = 0;; ++i) {
        for (; next < whole.way.size() && whole.way[next].second < i; ++next) {}
        for (size_t k = next; read == size && k < whole.way.size() && whole.way[k].second == i; ++k)
          if (whole.way[k].first == inside.stack) {
            Way rest{0, at->whole, i};
            rest.bytes = i64(text_of(rest).bytes.size());
            return pin(inside, rest);
          }
        if (i == whole.symbols.size() || read > size) break;
        read += whole.symbols[i] < Text::ITEM_BEGINS;
      }
    }
  }

  size_t bytes() const {
    return least_.bytes() + frames_.bytes() + ends_.bytes() + short_.bytes() + one_text_.bytes() + by_bytes_.bytes() + in_every_order_.bytes() + byte_lexer_.bytes() +
           byte_positions_.bytes() + index_.bytes() + alike_index_.bytes() + pinned_.bytes() + sought_index_.bytes() + sought_.size() * sizeof(Sought) + ways_.size() * sizeof(Way) + written_;
  }

 private:
  static constexpr i64 GAVE_UP = -1;
  struct Way {    // from an item to the end
    i64 bytes;    // ENDLESS: there is none; GAVE_UP: a search did not tell
    i32 whole;    // of `wholes_`; NONE: its text is not known
    size_t from;  // the symbols before it
  };
  struct Sought {  // the fewest tokens that a search found, FAR if there are no fewer than was asked, or it gave up
    i32 tokens;
    u64 taken;
    bool gave_up;
    std::vector<i32> symbols;
  };
  struct Whole {  // a text that was found
    std::vector<i32> symbols;
    std::vector<std::pair<i32, size_t>> way;  // stacks that it leads through, each with the symbols before it
    i32 next;         // the way that goes on from its end; NONE: it leads to the end
    i32 node = NONE;  // as LEX; NONE: not yet
  };
  struct Split {  // an item, parted at the outermost observer that looks at bytes
    Item inside, below;
  };
  enum Kinds { LOOKS, DIFFERS, COUNTS, ORDERS, KINDS };  // nodes that look at bytes; items that must differ; budgets of parts; many members

  static bool is(Kinds kinds, const Node& n) {
    if (kinds == ORDERS) return n.kind == BAG && n.parts.size() > EVERY_ORDER;
    return kinds == LOOKS ? n.looks() : n.kind == (kinds == DIFFERS ? APART : TOKENS);
  }

  // Whether items that must differ are open, or may come.
  bool is_apart(Item item) {
    for (i32 e = item.env; e; e = stacks_.observers.top(e).outer)
      if (stacks_.observers.kind(e) == APART) return true;
    return reaches_kind(item.stack, DIFFERS);
  }

  // Whether a node of these kinds may be called by a frame of a stack.
  bool reaches_kind(i32 stack, Kinds kinds) {
    std::vector<i32>& of_stack = of_stack_[kinds];
    std::vector<i32> above;
    bool found = false;
    for (; stack != NONE; stack = stacks_.frame(stack).below) {
      if (stack < i32(of_stack.size()) && of_stack[stack] != NONE) {
        found = of_stack[stack];
        break;
      }
      above.push_back(stack);
    }
    for (; !above.empty(); above.pop_back()) {
      Frame f = stacks_.frame(above.back());
      if (f.node == JOIN)
        for (i32 each : stacks_.joined(above.back())) found = found || reaches_kind(each, kinds);
      else found = found || node_reaches(f.node, kinds);
      if (above.back() >= i32(of_stack.size())) of_stack.resize(above.back() + 1, NONE);
      of_stack[above.back()] = found;
    }
    return found;
  }

  bool node_reaches(i32 node, Kinds kinds) {
    std::vector<i32>& of_node = of_node_[kinds];
    if (of_node.size() < stacks_.nodes.size()) of_node.resize(stacks_.nodes.size(), NONE);
    if (of_node[node] != NONE) return of_node[node];
    std::vector<i32> reached;
    bool found = reaches(stacks_.nodes, node, reached, [&](const Node& n) { return is(kinds, n); });
    if (!found)
      for (i32 each : reached) of_node[each] = 0;
    of_node[node] = found;
    return found;
  }

  Split split(Item item) {
    std::vector<i32> open, frames;
    i32 outer = item.env;
    for (i32 e = item.env; e; e = stacks_.observers.top(e).outer) {
      frames.push_back(e);
      if (stacks_.observers.kind(e) == TOKENS) continue;
      open = frames;
      outer = stacks_.observers.top(e).outer;
    }
    frames.clear();
    Split found{{NONE, 0}, {item.stack, outer}};
    for (size_t left = open.size(); left; found.below.stack = stacks_.frame(found.below.stack).below) {
      frames.push_back(found.below.stack);
      const i32 node = stacks_.frame(found.below.stack).node;
      if (node == JOIN) return {item, {NONE, 0}};  // its stacks share no frame
      left -= stacks_.nodes[node].kind >= WITHIN;
    }
    for (; !frames.empty(); frames.pop_back()) {
      Frame f = stacks_.frame(frames.back());
      found.inside.stack = stacks_.push(f.node, f.reg, found.inside.stack);
    }
    for (; !open.empty(); open.pop_back()) found.inside.env = stacks_.observers.within(open.back(), found.inside.env);
    return found;
  }

  // A text from an item inside an observer to its end: a known one that keeps all items distinct, even if it was found for other texts of
  // items, or else one that is searched for now.
  Way& way(Item item) {
    if (i32 known = found(item); known != NONE) {
      if (ways_[known].bytes == GAVE_UP) gave_up();
      return ways_[known];
    }
    crossing_.check();
    bool is_live = false, known = true;
    std::optional<Search> done;
    auto seek = [&](Item from, u64 most) {
      Search& search = done.emplace(stacks_, frames_);
      try {
        is_live = search.find(from, most, [&](Item at) {
          i32 known = stacks_.observers.relaxed ? NONE : found(at);
          search.taken += std::exchange(distinct.taken, 0) / COMPARED;
          return known != NONE && ways_[known].bytes == ENDLESS ? Search::DEAD : known == NONE || ways_[known].whole == NONE ? Search::UNKNOWN : Search::LIVE;
        });
        crossing_.taken += search.taken / 4;
        return true;
      } catch (const LimitPassed&) {
        crossing_.taken += search.taken / 4;
        return false;
      }
    };
    if (!seek(item, LONG)) {
      known = false;
      if (is_apart(item)) {  // an end that is not even there where many items need not differ is not there at all
        struct Relaxed {
          bool& is;
          explicit Relaxed(bool& given) : is(given) { is = true; }
          ~Relaxed() { is = false; }
        };
        bool none;
        {
          Relaxed relaxed(stacks_.observers.relaxed);
          none = (seek({item.stack, stacks_.observers.without_open(item.env)}, LONG) && !is_live) || (seek(item, LONG) && !is_live);
        }
        if (none) return kept(item, {ENDLESS, NONE, 0});
        if (!(known = seek(item, MOST_STATES))) {
          kept(item, {GAVE_UP, NONE, 0});
          gave_up();
        }
      }
    }
    Search& search = *done;
    if (!known) {
      const i32 env = stacks_.observers.tables(item.env);
      i64 bytes = by_bytes_.rest(item.stack, Positions::ROOT, 0, env, SOME, true);
      if (bytes > SOME) bytes = in_every_order_.rest(item.stack, Positions::ROOT, 0, env, SOME, true);
      return kept(item, {bytes > SOME ? ENDLESS : bytes, NONE, 0});
    }
    if (!is_live) return kept(item, {ENDLESS, NONE, 0});
    const Item last = search.way.front().first;
    const i32 next = last.stack == NONE ? NONE : found(last);
    i64 bytes = next == NONE ? 0 : ways_[next].bytes;
    size_t at = search.symbols.size();
    for (auto [on_way, before] : search.way) {  // from the end on
      for (; at > before; --at) bytes += search.symbols[at - 1] < Text::ITEM_BEGINS;
      if (on_way.stack != NONE) kept(on_way, {bytes, i32(wholes_.size()), before});
    }
    written_ += 4 * search.symbols.size() + 16 * search.way.size() + sizeof(Whole);
    std::vector<std::pair<i32, size_t>> stacks;
    for (size_t i = search.way.size(); i-- > 0;) stacks.push_back({search.way[i].first.stack, search.way[i].second});
    wholes_.push_back({std::move(search.symbols), std::move(stacks), next});
    return ways_[found(item)];
  }

  [[noreturn]] static void gave_up() { throw LimitPassed("whether a text has an end takes more than " + std::to_string(MOST_STATES) + " steps to find"); }

  // The number of a way that is known for an item: its own, or that of other texts of items, as far as all differ.
  i32 found(Item item) {
    i32 known = pinned_.find(key_of(item));
    if (known != NONE) return pins_[known];
    known = index_.find(key_of(item));
    if (known != NONE) return known;
    known = alike_index_.find(alike_key(item));
    if (known == NONE || !distinct.keeps_distinct(item.env, text_of(ways_[known]))) return NONE;
    index_.put(key_of(item), known);
    return known;
  }

  // Keep a way for an item, and the first one for those in which only texts of items differ.
  Way& kept(Item item, Way way) {
    if (index_.find(key_of(item)) == NONE) index_.put(key_of(item), i32(ways_.size()));
    if (way.whole != NONE && alike_index_.find(alike_key(item)) == NONE) alike_index_.put(alike_key(item), i32(ways_.size()));
    ways_.push_back(way);
    return ways_.back();
  }

  void pin(Item item, Way way) {
    i32 known = pinned_.find(key_of(item));
    if (known == NONE) {
      pinned_.put(key_of(item), known = i32(pins_.size()));
      pins_.push_back(NONE);
    }
    pins_[known] = i32(ways_.size());
    ways_.push_back(way);
  }

  Text text_of(const Way& way) const {
    if (way.whole == NONE) throw LimitPassed("a text that is enough takes too many steps to find");
    std::vector<i32> symbols;
    for (const Way* at = &way;; at = &ways_[wholes_[at->whole].next]) {
      const Whole& whole = wholes_[at->whole];
      symbols.insert(symbols.end(), whole.symbols.begin() + i64(at->from), whole.symbols.end());
      if (whole.next == NONE) break;
    }
    return Text::of(symbols, 0);
  }

  Index::Key alike_key(Item item) { return key_of({item.stack, stacks_.observers.without_texts(item.env)}); }

  static Index::Key key_of(Item item) { return {u64(u32(item.stack)), u64(u32(item.env)), 0}; }

  // A text of a node that looks at bytes, known or found by a search.
  Way& entered(i32 node) { return way({stacks_.push(node, stacks_.first(node), NONE), 0}); }

  // The fewest tokens to the end on which APART takes one text; FAR if they are more than `most`.
  i32 tokens(Item item, i32 most, bool spelled) {
    if (stacks_.observers.looks(item.env)) {
      Split at = split(item);
      if (!spelled && reaches_kind(at.inside.stack, COUNTS)) return FAR;
      Way& found = way(at.inside);
      if (found.whole == NONE) return FAR;
      item = {stack_of(found, at.below.stack), at.below.env};
    }
    i32 found = one_text_.rest(item.stack, Positions::ROOT, stacks_.observers.budgets(item.env), stacks_.observers.tables(item.env), most, spelled);
    return found <= most ? found : FAR;
  }

  // The result of a search for a text of at most `most` tokens: their number and the text; cached.
  const Sought& by_tokens(Item item, i32 most, bool spelled) {
    static const Sought none{FAR, 0, false, {}};
    if (most < 0 || left_ <= 0) return none;
    Index::Key key{u64(u32(item.stack)), u64(u32(item.env)), u64(most) << 1 | spelled};
    if (i32 known = sought_index_.find(key); known != NONE) return sought_[known];
    const Item plain{item.stack, stacks_.observers.without_texts(item.env)};
    if (plain.env != item.env) {
      const Sought& shared = by_tokens(plain, most, spelled);
      if (shared.tokens < FAR && distinct.keeps_distinct(item.env, Text::of(shared.symbols, 0))) return shared;
    }
    crossing_.check();
    Search search(stacks_, frames_, trie_, crossing_, most, spelled);
    Sought found{FAR, 0, false, {}};
    try {
      if (search.find(item, most == SOME ? MOST_STATES : MOST_SOUGHT, [](Item) { return Search::UNKNOWN; })) found.tokens = search.tokens, found.symbols = std::move(search.symbols);
    } catch (const LimitPassed&) {
      found.gave_up = true;
    }
    found.taken = search.taken;
    crossing_.taken += search.taken;
    sought_index_.put(key, i32(sought_.size()));
    written_ += 4 * found.symbols.size();
    sought_.push_back(std::move(found));
    return sought_.back();
  }

  // A node of one text of a node that looks at bytes, NONE if it has none, or if its parts have budgets.
  i32 text_node(i32 node) {
    if (node_reaches(node, COUNTS)) return NONE;
    if (text_nodes_.size() <= size_t(node)) text_nodes_.resize(stacks_.nodes.size(), NONE);
    if (text_nodes_[node] != NONE) return text_nodes_[node];
    try {
      Way& found = entered(node);
      if (found.whole == NONE) return NONE;
      const i32 made = lex(text_of(found).bytes);
      return text_nodes_[node] = made;
    } catch (const LimitPassed&) {  // an upper bound less
      return NONE;
    }
  }

  // The stack that reads what is left of a text, on another one.
  i32 stack_of(const Way& way, i32 below) {
    std::vector<const Way*> parts;
    for (const Way* at = &way; at; at = wholes_[at->whole].next == NONE ? nullptr : &ways_[wholes_[at->whole].next]) parts.push_back(at);
    for (; !parts.empty(); parts.pop_back()) {
      const Way& part = *parts.back();
      const auto& symbols = wholes_[part.whole].symbols;
      i64 from = std::count_if(symbols.begin(), symbols.begin() + i64(part.from), [](i32 each) { return each < Text::ITEM_BEGINS; });
      Whole& whole = wholes_[part.whole];
      if (whole.node == NONE) whole.node = lex(Text::of(whole.symbols, 0).bytes);
      below = stacks_.push(whole.node, u64(from), below);
    }
    return below;
  }

  // The node that reads a text.
  i32 lex(const std::string& bytes) {
    std::vector<i32> edges, label(bytes.size() + 1, NONE);
    for (size_t at = 0; at < bytes.size(); ++at) edges.insert(edges.end(), {i32(at), u8(bytes[at]), u8(bytes[at]), i32(at) + 1});
    label.back() = 0;
    stacks_.tables.push_back(Table::of(edges.data(), bytes.size(), label, std::vector<u8>(label.size(), 1)));
    Node made;
    made.kind = LEX;
    made.tables = {i32(stacks_.tables.size() - 1)};
    written_ += sizeof(Table) + sizeof(Node) + 4 * stacks_.tables.back().cells() + 40 * label.size();
    stacks_.nodes.push_back(std::move(made));
    return i32(stacks_.nodes.size() - 1);
  }

  Stacks& stacks_;
  const Trie& trie_;
  Crossing& crossing_;
  Positions byte_positions_;
  Lexer byte_lexer_;
  Crossing one_text_;  // where APART takes one text
  Crossing by_bytes_, in_every_order_;  // where each byte is a token
  Crossing tokens_in_every_order_;
  Bytes least_, frames_, ends_;  // `frames_`: where observers take anything
  ShortTexts short_;
  std::vector<i32> of_stack_[KINDS], of_node_[KINDS];  // NONE: not yet
  Index index_, alike_index_, pinned_;
  std::vector<i32> pins_;  // ways
  Stable<Way> ways_;
  Stable<Whole> wholes_;
  Index sought_index_;
  Stable<Sought> sought_;
  i64 left_ = ENDLESS;
  std::vector<i32> text_nodes_;  // by node, of some text of it; NONE: not yet
  size_t written_ = 0;  // bytes of texts and their nodes
};

}  // namespace tractile
