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

constexpr size_t MOST_ALIKE = 64;  // memories in an item that a search keeps, beside those that are enough if no item spoils two of them

class Observers {
 public:
  struct Open {
    i32 node;
    u64 value;
    i32 outer;
  };

  Observers(const Stable<Table>& tables, const Stable<Node>& nodes) : tables_(tables), nodes_(nodes) { sets_.number({}); }

  const Open& top(i32 env) const { return all_[env]; }
  Kind kind(i32 env) const { return nodes_[all_[env].node].kind; }
  const Node& node(i32 env) const { return nodes_[all_[env].node]; }

  // The environment inside a node, which is an observer.
  i32 enter(i32 node, i32 env) { return put(node, 0, env); }

  // The environment of an observer inside another one.
  i32 within(i32 env, i32 outer) { return put(all_[env].node, all_[env].value, outer); }

  // The environment after the innermost observer, NONE if it may not be left.
  i32 leave(i32 env) {
    Open open = all_[env];
    const Node& n = nodes_[open.node];
    switch (n.kind) {
      case WITHIN: return tables_[n.tables[0]].label[open.value] >= 0 ? open.outer : NONE;
      case TOKENS: return counted(n, open.value) >= n.low ? open.outer : NONE;
      case ITEM: return with_item(open.outer, n.low ? of_json(i32(open.value)) : i32(open.value));
      default: return open.outer;
    }
  }

  // The environment after a byte, NONE if an observer does not take it.
  i32 read(i32 env, u8 byte) {
    return changed(env, byte, [&](const Node& n, u64 value) -> i64 {
      switch (n.kind) {
        case WITHIN: return tables_[n.tables[0]].step(i32(value), byte);
        case TOKENS: return (value & 1) || n.high < 0 || i64(value >> 1) < n.high ? i64(value | 1) : NONE;
        case ITEM: return longer(i32(value), byte);
        default: return i64(value);
      }
    });
  }

  // The environment after the end of a token.
  i32 token_end(i32 env) {
    return changed(env, 256, [&](const Node& n, u64 value) { return n.kind == TOKENS ? 2 * counted(n, value) : i64(value); });
  }

  // The budgets of parts that are open, with nothing else; between tokens.
  i32 budgets(i32 env) {
    if (env == 0) return 0;
    i32 outer = budgets(all_[env].outer);
    return kind(env) == TOKENS ? put(all_[env].node, all_[env].value, outer) : outer;
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
    return any(env, [](Kind kind) { return kind != TOKENS; });
  }

  // Whether a table is open: then what may come is not seen from the frames.
  bool filters(i32 env) const {
    return any(env, [](Kind kind) { return kind == WITHIN; });
  }

  // Whether an observer is open that may not take a byte.
  bool refuses(i32 env) const {
    return any(env, [](Kind kind) { return kind == WITHIN || kind == TOKENS; });
  }

  // Whether an item is open: then environments differ by what is read.
  bool keeps_texts(i32 env) const {
    return any(env, [](Kind kind) { return kind == ITEM; });
  }

  // The environment with all texts taken for empty.
  i32 without_texts(i32 env) {
    return changed(env, 257, [](const Node& n, u64 value) { return n.kind == APART || n.kind == ITEM ? 0 : i64(value); });
  }

  // The text without its last byte, and this byte.
  std::pair<i32, u8> before(i32 text) const { return before_[text]; }

  // What an environment remembers of texts.
  struct Memory {
    std::vector<u64> read;  // (place of its APART, text of an item), in ascending order
    std::vector<i32> open;  // what was read of each item that is open, the innermost first
    std::vector<i32> compared[3];  // numbers by which those are compared; empty: not known yet
  };

  // How items that are open are compared. Of equal numbers, what follows gives them equal values, whether or not a number at the end goes
  // on; or they would be equal if they ended here.
  enum Compared { IF_IT_GOES_ON, AS_IT_IS, IF_IT_ENDS };

  Memory& memory(i32 env) {
    Index::Key key{u64(u32(env)), 0, 1};
    i32 known = memory_index_.find(key);
    if (known != NONE) return memories_[known];
    Memory found;
    for (i32 e = env, place = 0; e; e = all_[e].outer, ++place) {
      i32 value = i32(all_[e].value);
      if (kind(e) == ITEM) found.open.push_back(value);
      if (kind(e) != APART) continue;
      for (const i32* text = sets_.begin(value); text != sets_.end(value); ++text) found.read.push_back(u64(place) << 32 | u64(u32(*text)));
    }
    std::sort(found.read.begin(), found.read.end());
    memory_index_.put(key, i32(memories_.size()));
    memories_.push_back(std::move(found));
    return memories_.back();
  }

  const std::vector<i32>& compared(i32 env, Memory& memory, Compared how) {
    std::vector<i32>& found = memory.compared[how];
    for (i32 e = found.empty() ? env : 0; e; e = all_[e].outer) {
      if (kind(e) != ITEM) continue;
      i32 text = memory.open[found.size()];
      if (node(e).low) text = number_of(how == IF_IT_ENDS ? JsonValue::form(written(text)) : JsonValue::beginning(written(text), how == IF_IT_GOES_ON));
      found.push_back(text);
    }
    return found;
  }

  // Add an environment to some, if its open items would differ from those of all others if they ended here: no item spoils two of them.
  void add_apart(i32 env, std::vector<i32>& some) {
    const std::vector<i32>& found = compared(env, memory(env), IF_IT_ENDS);
    for (i32 each : some) {
      const std::vector<i32>& other = compared(each, memory(each), IF_IT_ENDS);
      for (size_t k = 0; k < found.size(); ++k)
        if (found[k] == other[k]) return;
    }
    some.push_back(env);
  }

  // How many texts of the same weight that differ in their last bytes are not needless after an environment.
  size_t beginnings(i32 env, i32 spare) const {
    size_t read = 0, open = 0;
    for (; env; env = all_[env].outer) {
      if (kind(env) == APART) read += sets_.size(i32(all_[env].value));
      open += kind(env) == ITEM;
    }
    return (spare + read) * open + 1;
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

  // Whether one of the cheaper environments, which differ in nothing but texts, serves as well, whatever `spare` items or fewer are
  // still to come; see `constraints/engine/observers.py`. `goes_on`: a number that they end with may go on.
  bool is_needless(i32 env, const std::vector<i32>& cheaper, i32 spare, bool goes_on) {
    if (cheaper.empty()) return false;
    Memory& found = memory(env);
    if (found.open.empty()) {
      std::vector<u64> more;
      i32 count = 0;
      for (i32 each : cheaper) {
        const Memory& other = memory(each);
        std::vector<u64> apart, both;
        std::set_difference(other.read.begin(), other.read.end(), found.read.begin(), found.read.end(), std::back_inserter(apart));
        std::set_intersection(more.begin(), more.end(), apart.begin(), apart.end(), std::back_inserter(both));
        if (both.empty()) {
          std::set_union(more.begin(), more.end(), apart.begin(), apart.end(), std::back_inserter(both));
          more.swap(both);
          ++count;
        }
        if (apart.empty() || count > spare) return true;
      }
      return false;
    }
    std::vector<i32> others, apart;
    for (i32 each : cheaper) {
      const Memory& other = memory(each);
      if (std::includes(found.read.begin(), found.read.end(), other.read.begin(), other.read.end())) others.push_back(each);
    }
    const size_t most = (spare + found.read.size()) * found.open.size();
    for (size_t at = 0; at < others.size() && apart.size() + others.size() - at > most; ++at) {
      add_apart(others[at], apart);
      if (apart.size() > most) return true;
    }
    if (others.size() > most + MOST_ALIKE) return true;
    const Compared how = goes_on ? IF_IT_GOES_ON : AS_IT_IS;
    // Those that go on alike would end alike, which is known of most.
    auto equal = [&](Memory& other, i32 each, Compared how) { return compared(each, other, how) == compared(env, found, how); };
    return std::any_of(others.begin(), others.end(), [&](i32 each) { return equal(memory(each), each, IF_IT_ENDS) && equal(memory(each), each, how); });
  }

  size_t bytes() const {
    return all_.capacity() * sizeof(Open) + index_.bytes() + moves_.bytes() + sets_.bytes() + texts_.bytes() + json_.bytes() + 8 * before_.capacity() +
           memory_index_.bytes() + memories_.size() * 200 + forms_.size() * 150;
  }

 private:
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
    index_.put(key, i32(all_.size()));
    all_.push_back({node, value, outer});
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
  std::vector<Open> all_{{NONE, 0, NONE}};
  std::vector<i32> reads_json_;  // by node; NONE: not yet
  Index index_, moves_, texts_, json_;
  Lists sets_;                    // of texts, in ascending order
  std::vector<std::pair<i32, u8>> before_{{NONE, 0}};  // by text that without its last byte, and this
  std::unordered_map<std::string, i32> forms_;  // by which beginnings are compared
  Index memory_index_;
  Stable<Memory> memories_;
};

}  // namespace tractile
