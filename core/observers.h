// Observers: nodes that keep something of the bytes read inside them, as `constraints/engine/observers.py` says.
//
//     kind     value                                                            may be left
//     WITHIN   state of the table                                               if it accepts
//     TOKENS   tokens that wrote a byte of the part, twice; +1: this one has    between its bounds
//     APART    the number of a set of texts: those of the items read            always
//     ITEM     the number of a text: what was read of it                        if its APART has no such text; with `low`,
//                                                                               of JSON, none of the same value
//
// An environment is the list of those that are open, the innermost first, hash-consed; 0 is the empty one.
#pragma once

#include <unordered_map>

#include "json_value.h"
#include "program.h"

namespace tractile {

class Observers {
 public:
  struct Open {
    i32 node;
    u64 value;
    i32 outer, depth;
  };

  Observers(const Stable<Table>& tables, const Stable<Node>& nodes) : tables_(tables), nodes_(nodes) { sets_.number({}); }

  const Open& top(i32 env) const { return all_[env]; }
  Kind kind(i32 env) const { return nodes_[all_[env].node].kind; }
  const Node& node(i32 env) const { return nodes_[all_[env].node]; }

  // The environment inside a node, which is an observer.
  i32 enter(i32 node, i32 env) {
    const bool alone = nodes_[node].kind == ITEM && (!any(env, [](Kind kind) { return kind == APART; }) || (relaxed && !is_finite(node)));
    return put(node, alone ? ALONE : 0, env);
  }

  // Whether items of which there are any number are taken to differ from all others.
  bool relaxed = false;

  // The environment of an observer inside another one.
  i32 within(i32 env, i32 outer) { return put(all_[env].node, all_[env].value, outer); }

  // The environment after the innermost observer, NONE if it may not be left.
  i32 leave(i32 env) {
    Open open = all_[env];
    const Node& n = nodes_[open.node];
    switch (n.kind) {
      case WITHIN: return tables_[n.tables[0]].label[open.value] >= 0 ? open.outer : NONE;
      case TOKENS: return counted(n, open.value) >= n.low ? open.outer : NONE;
      case ITEM: return open.value == ALONE ? open.outer : with_item(open.outer, n.low ? of_json(i32(open.value)) : i32(open.value));
      default: return open.outer;
    }
  }

  // The environment after a byte, NONE if an observer does not take it.
  i32 read(i32 env, u8 byte) {
    return changed(env, byte, [&](const Node& n, u64 value) -> i64 {
      switch (n.kind) {
        case WITHIN: return within_step(n, i32(value), byte);
        case TOKENS: return (value & 1) || n.high < 0 || i64(value >> 1) < n.high ? i64(value | 1) : NONE;
        case ITEM: return value == ALONE ? i64(value) : longer(i32(value), byte);
        default: return i64(value);
      }
    });
  }

  // The environment after a token ends: each open budget (TOKENS) of whose part it wrote a byte has counted it.
  i32 token_end(i32 env) {
    return changed(env, 256, [&](const Node& n, u64 value) { return n.kind == TOKENS ? 2 * counted(n, value) : i64(value); });
  }

  // The budgets of parts that are open, with nothing else; between tokens.
  i32 budgets(i32 env) {
    return only(env, [](Kind kind) { return kind == TOKENS; });
  }

  // The tables that are open, each in its state, with nothing else.
  i32 tables(i32 env) {
    return only(env, [](Kind kind) { return kind == WITHIN; });
  }

  // What bytes move of an environment, in which texts are not told apart: tables and budgets.
  i32 moving(i32 env) {
    return only(env, [](Kind kind) { return kind == WITHIN || kind == TOKENS; });
  }

  // The environment in which what bytes move has come to `moved`.
  i32 with(i32 env, i32 moved) {
    if (env == 0) return 0;
    Index::Key key{u64(u32(env)), u64(u32(moved)), 1};
    i32 known = moves_.find(key);
    if (known != NONE) return known - 1;
    const Open open = all_[env];
    const bool moves = kind(env) == WITHIN || kind(env) == TOKENS;
    const i32 outer = with(open.outer, moves ? all_[moved].outer : moved);
    const i32 found = put(open.node, moves ? all_[moved].value : open.value, outer);
    moves_.put(key, found + 1);
    return found;
  }

  // The fewest bytes after which all tables that are open accept.
  i64 fewest(i32 env) const {
    i64 found = 0;
    for (; env; env = all_[env].outer)
      if (kind(env) == WITHIN) found = std::max<i64>(found, needed(node(env))[all_[env].value]);
    return found;
  }

  // Budgets after some tokens more.
  i32 after(i32 env, i64 tokens) {
    if (env == 0 || tokens == 0) return env;
    Open open = all_[env];
    const Node& n = nodes_[open.node];
    i64 count = i64(open.value >> 1) + tokens;
    if (n.high < 0) count = std::min(count, n.low);
    return put(open.node, u64(2 * count), after(open.outer, tokens));
  }

  // How many tokens are still told apart: those that some part lacks.
  i64 lacking(i32 env) const {
    i64 found = 0;
    for (; env; env = all_[env].outer)
      if (kind(env) == TOKENS) found = std::max(found, node(env).low - i64(all_[env].value >> 1));
    return found;
  }

  // The most tokens that all parts still take; `most` if there is no bound below it.
  i64 room(i32 env, i64 most) const {
    for (; env; env = all_[env].outer)
      if (kind(env) == TOKENS && node(env).high >= 0) most = std::min(most, node(env).high - i64(all_[env].value >> 1));
    return most;
  }

  // Whether an observer is open that looks at bytes.
  bool looks(i32 env) const {
    return any(env, [](Kind kind) { return kind == WITHIN || kind == APART; });
  }

  // Whether a table is open: then what may come is not seen from the frames.
  bool filters(i32 env) const {
    return any(env, [](Kind kind) { return kind == WITHIN; });
  }

  // Whether an item is open whose text must differ from those of others, so that what it has read must be kept.
  bool keeps_texts(i32 env) const {
    for (; env; env = all_[env].outer)
      if (kind(env) == ITEM && all_[env].value != ALONE) return true;
    return false;
  }

  // The environment with all texts taken for empty.
  i32 without_texts(i32 env) {
    return changed(env, 257, [](const Node& n, u64 value) { return n.kind == APART || (n.kind == ITEM && value != ALONE) ? 0 : i64(value); });
  }

  // The environment in which the items that are open may be equal to others.
  i32 without_open(i32 env) {
    return changed(env, 260, [](const Node& n, u64 value) { return n.kind == ITEM ? i64(ALONE) : i64(value); });
  }

  // The text without its last byte, and this byte.
  std::pair<i32, u8> before(i32 text) const { return before_[text]; }

  // The texts of items: of those that are open, the innermost first, and the numbers of those that were read, in ascending order.
  struct Items {
    std::vector<i32> open, read;
  };

  Items items(i32 env) const {
    Items found;
    for (; env; env = all_[env].outer) {
      const i32 value = i32(all_[env].value);
      if (kind(env) == ITEM && all_[env].value != ALONE) found.open.push_back(value);
      if (kind(env) == APART) found.read.insert(found.read.end(), sets_.begin(value), sets_.end(value));
    }
    std::sort(found.read.begin(), found.read.end());
    found.read.erase(std::unique(found.read.begin(), found.read.end()), found.read.end());
    return found;
  }

  // An environment by which those are known from which the same may follow: of items that are compared as JSON only the values matter.
  // `ends`: a number at the end is one, whatever goes on.
  i32 alike(i32 env, bool ends) {
    return changed(env, 258 + ends, [&](const Node& n, u64 value) {
      if (n.kind != ITEM || !n.low || value == ALONE) return i64(value);
      return i64(1) << 32 | number_of(JsonValue::beginning(written(i32(value)), !ends));
    });
  }

  // The text that is longer by some bytes.
  i32 longer(i32 text, const std::string& bytes, size_t begin, size_t end) {
    for (; begin < end; ++begin) text = i32(longer(text, u8(bytes[begin])));
    return text;
  }

  // The number of a text, NONE if it was not met.
  i32 find(const std::string& text) const {
    i32 found = 0;
    for (size_t at = 0; at < text.size() && found != NONE; ++at) found = texts_.find({u64(u32(found)), u8(text[at]), 0});
    return found;
  }

  // The text that stands for all of the same value as JSON.
  i32 of_json(i32 text) {
    Index::Key key{u64(u32(text)), 0, 2};
    i32 known = json_.find(key);
    if (known == NONE) {
      std::string form = JsonValue::form(written(text));
      json_.put(key, known = longer(0, form, 0, form.size()));
    }
    return known;
  }

  // The bytes of a text.
  std::string written(i32 text) const {
    std::string found;
    for (; text > 0; text = before_[text].first) found += char(before_[text].second);
    std::reverse(found.begin(), found.end());
    return found;
  }

  // Whether items that are open, or have been read, are compared as JSON.
  bool is_json(i32 env) {
    for (; env; env = all_[env].outer)
      if (kind(env) == APART && reads_json(all_[env].node)) return true;
    return false;
  }

  size_t bytes() const {
    return all_.capacity() * sizeof(Open) + index_.bytes() + moves_.bytes() + sets_.bytes() + texts_.bytes() + json_.bytes() + 8 * before_.capacity() +
           forms_.size() * 150;
  }

 private:
  static constexpr u64 ALONE = 1ull << 40;  // of an item outside of any APART: no text is kept

  template <class F>
  i32 only(i32 env, F&& is) {
    if (env == 0) return 0;
    i32 outer = only(all_[env].outer, is);
    return is(kind(env)) ? put(all_[env].node, all_[env].value, outer) : outer;
  }

  template <class F>
  bool any(i32 env, F&& is) const {
    for (; env; env = all_[env].outer)
      if (is(kind(env))) return true;
    return false;
  }

  i32 put(i32 node, u64 value, i32 outer) {
    Index::Key key{u64(u32(node)), value, u64(u32(outer))};
    i32 known = index_.find(key);
    if (known != NONE) return known;
    if (all_[outer].depth >= MOST_OBSERVERS) throw LimitPassed("more than " + std::to_string(MOST_OBSERVERS) + " parts that look at their texts are open within each other");
    index_.put(key, i32(all_.size()));
    all_.push_back({node, value, outer, all_[outer].depth + 1});
    return i32(all_.size() - 1);
  }

  // f(node, value) of each observer, the outermost first; NONE if one of them is.
  template <class F>
  i32 changed(i32 env, u64 what, F&& f) {
    if (env == 0) return 0;
    Index::Key key{u64(u32(env)), what, 0};
    i32 known = moves_.find(key);
    if (known != NONE) return known - 1;
    std::vector<i32> open;
    for (i32 e = env; e; e = all_[e].outer) open.push_back(e);
    i32 found = 0;
    for (size_t i = open.size(); i-- > 0 && found != NONE;) {
      i64 value = f(node(open[i]), all_[open[i]].value);
      found = value == NONE ? NONE : put(all_[open[i]].node, u64(value), found);
    }
    moves_.put(key, found + 1);
    return found;
  }

  // Whether a node has a finite number of texts: nothing that it reads, and no call, comes back to itself.
  bool is_finite(i32 node) {
    if (finite_.size() < nodes_.size()) finite_.resize(nodes_.size(), NONE);
    if (finite_[node] != NONE) return finite_[node];
    finite_[node] = 0;  // for a call of itself
    const Node& n = nodes_[node];
    bool found = n.kind != BAG || n.members == i32(n.parts.size());
    if ((n.kind == REPEAT || n.kind == COUNT) && n.high < 0) found = false;
    for (i32 number : n.kind == WITHIN ? std::vector<i32>() : n.tables) {
      const Table& t = tables_[number];
      std::vector<i32> into(t.states, 0), free;  // Kahn's order
      for (const Table::Move& move : t.moves) ++into[move.to];
      for (i32 s = 0; s < t.states; ++s)
        if (!into[s]) free.push_back(s);
      for (size_t at = 0; at < free.size(); ++at)
        for (size_t i = t.begin[free[at]]; i < t.begin[free[at] + 1]; ++i)
          if (!--into[t.moves[i].to]) free.push_back(t.moves[i].to);
      found = found && (n.kind == COUNT || i32(free.size()) == t.states);
    }
    for (i32 part : n.parts) found = found && is_finite(part);
    finite_[node] = found;
    return found;
  }

  // The state of a table after a byte, NONE if no text that the part can write leads from there to acceptance.
  i32 within_step(const Node& n, i32 state, u8 byte) const {
    const i32 after = tables_[n.tables[0]].step(state, byte);
    return after == NONE || needed(n)[after] == NONE ? NONE : after;
  }

  // For each state of a WITHIN's table: the fewest bytes to acceptance, using only bytes that its part can write; NONE if there is no way.
  const std::vector<i32>& needed(const Node& n) const {
    std::vector<i32>& found = needed_[&n];
    if (!found.empty()) return found;
    std::vector<i32> reached;
    bool writes[256] = {false};
    reaches(nodes_, n.parts[0], reached, [&](const Node& each) {
      for (i32 number : each.kind == WITHIN ? std::vector<i32>() : each.tables)
        for (const Table::Move& move : tables_[number].moves)
          for (int byte = move.low; byte <= move.high; ++byte) writes[byte] = true;
      return false;
    });
    const Table& t = tables_[n.tables[0]];
    std::vector<std::vector<i32>> before(t.states);
    for (i32 s = 0; s < t.states; ++s)
      for (size_t i = t.begin[s]; i < t.begin[s + 1]; ++i)
        if (std::any_of(writes + t.moves[i].low, writes + t.moves[i].high + 1, [](bool b) { return b; })) before[t.moves[i].to].push_back(s);
    found.assign(t.states, NONE);
    std::vector<i32> queue;
    for (i32 s = 0; s < t.states; ++s)
      if (t.label[s] >= 0) found[s] = 0, queue.push_back(s);
    for (size_t at = 0; at < queue.size(); ++at)
      for (i32 s : before[queue[at]])
        if (found[s] == NONE) found[s] = found[queue[at]] + 1, queue.push_back(s);
    return found;
  }

  static i64 counted(const Node& n, u64 value) {
    i64 found = i64(value >> 1) + i64(value & 1);
    return n.high >= 0 ? found : std::min(found, n.low);
  }

  i64 longer(i32 text, u8 byte) {
    Index::Key key{u64(u32(text)), byte, 0};
    i32 known = texts_.find(key);
    if (known == NONE) {
      texts_.put(key, known = i32(before_.size()));
      before_.push_back({text, byte});
    }
    return known;
  }

  i32 number_of(const std::string& form) { return forms_.try_emplace(form, i32(forms_.size())).first->second; }

  bool reads_json(i32 node) {
    if (reads_json_.size() < nodes_.size()) reads_json_.resize(nodes_.size(), NONE);
    std::vector<i32> reached;
    if (reads_json_[node] == NONE) reads_json_[node] = reaches(nodes_, node, reached, [](const Node& n) { return n.kind == ITEM && n.low; });
    return reads_json_[node];
  }

  // The environment with a text more in the nearest APART, NONE if it has that text.
  i32 with_item(i32 env, i32 text) {
    if (env == 0) return 0;
    Open open = all_[env];
    if (kind(env) != APART) {
      i32 outer = with_item(open.outer, text);
      return outer == NONE ? NONE : put(open.node, open.value, outer);
    }
    std::vector<i32> set(sets_.begin(i32(open.value)), sets_.end(i32(open.value)));
    auto at = std::lower_bound(set.begin(), set.end(), text);
    if (at != set.end() && *at == text) return NONE;
    set.insert(at, text);
    return put(open.node, u64(sets_.number(set)), open.outer);
  }

  const Stable<Table>& tables_;
  const Stable<Node>& nodes_;
  std::vector<Open> all_{{NONE, 0, NONE, 0}};
  std::vector<i32> reads_json_;  // by node; NONE: not yet
  std::vector<i32> finite_;      // by node; NONE: not yet
  Index index_, moves_, texts_, json_;
  Lists sets_;                    // of texts, in ascending order
  std::vector<std::pair<i32, u8>> before_{{NONE, 0}};  // by text that without its last byte, and this
  mutable std::unordered_map<const Node*, std::vector<i32>> needed_;  // by WITHIN
  std::unordered_map<std::string, i32> forms_;  // by which beginnings are compared
};

}  // namespace tractile
