// A fuzzer of the core, without Python: random tables, nodes, vocabularies and texts, and what must hold of the answers.
//
//     fuzz INPUTS SEED            the inputs SEED, SEED + 1, …; `fuzz 1 S` repeats one
//     fuzz INPUTS SEED answers    prints what is answered, a line each input, so that builds can be compared: "-" where it is refused, "~"
//                                 before what may be an upper bound
//
// Texts are compared with the languages of nodes as sets, masks and distances with a breadth-first search over tokens. Of programs
// with budgets of parts, or items that differ, only the latter: what they mean is tested beside the definition.
#include <array>
#include <bitset>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "automaton.h"

using namespace tractile;

namespace {

// ---------------------------------------------------------------- random numbers, failures

struct Random {
  std::mt19937_64 source;
  int below(int n) { return int(source() % u64(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool chance(double p) { return double(source() >> 11) < p * 9007199254740992.0; }
};

u64 current = 0;
std::string about;  // the program, for the message
bool answering = false;

std::string quoted(const std::string& text) {
  std::string found = "\"";
  for (char c : text) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", u8(c));
    found += c >= 'a' && c <= 'z' ? std::string(1, c) : hex;
  }
  return found + "\"";
}

constexpr int MOST_SECONDS = 60;  // of an input, which takes some milliseconds

[[noreturn]] void fail(const std::string& what) {
  std::printf("input %llu: %s\n%s\n", (unsigned long long)current, what.c_str(), about.c_str());
  std::exit(1);
}

// ---------------------------------------------------------------- languages of short texts

constexpr int LONGEST = 4, TEXTS = 121;  // texts of a, b, c
constexpr int FIRST[] = {0, 1, 4, 13, 40, 121};
using Language = std::bitset<TEXTS>;
std::vector<std::string> texts;
std::map<std::string, int> number_of;
struct Joined {
  int a, b, both;
};
std::vector<Joined> joined;

void list_texts() {
  texts = {""};
  for (size_t i = 0; texts.size() < TEXTS; ++i)
    for (char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
  for (int i = 0; i < TEXTS; ++i) number_of[texts[i]] = i;
  for (int a = 0; a < TEXTS; ++a)
    for (int b = 0; b < FIRST[LONGEST - texts[a].size() + 1]; ++b) joined.push_back({a, b, number_of[texts[a] + texts[b]]});
}

Language join(const Language& a, const Language& b) {
  Language found;
  for (const Joined& j : joined)
    if (a[j.a] && b[j.b]) found[j.both] = true;
  return found;
}

// ---------------------------------------------------------------- programs

struct SomeTable {
  std::vector<std::array<i32, 4>> edges;
  std::vector<i32> label;
  std::vector<u8> between;
  int base = -1;
  std::vector<i32> in_base;
  std::vector<u8> apart;
};

struct SomeNode {
  Kind kind = SEQ;
  std::vector<int> parts, tables;
  i64 low = 0, high = -1;
  std::vector<i32> required;
  int members = 0;
  bool ordered = false;
};

// Without states that are not reached or lead nowhere; the edges in their order. False if nothing is accepted.
bool trim(SomeTable& t) {
  size_t states = t.label.size();
  std::vector<u8> reached(states, 0), useful(states, 0);
  reached[0] = 1;
  for (size_t s = 0; s < states; ++s) useful[s] = t.label[s] >= 0;
  for (size_t turn = 0; turn < states; ++turn)
    for (auto& e : t.edges) {
      reached[e[3]] |= reached[e[0]];
      useful[e[0]] |= useful[e[3]];
    }
  if (!useful[0]) return false;
  std::vector<i32> place(states, NONE);
  SomeTable kept;
  kept.base = t.base;
  for (size_t s = 0; s < states; ++s)
    if (reached[s] && useful[s]) {
      place[s] = i32(kept.label.size());
      kept.label.push_back(t.label[s]);
      kept.between.push_back(t.between[s]);
      if (t.base >= 0) {
        kept.in_base.push_back(t.in_base[s]);
        kept.apart.push_back(t.apart[s]);
      }
    }
  for (auto& e : t.edges)
    if (place[e[0]] != NONE && place[e[3]] != NONE) kept.edges.push_back({place[e[0]], e[1], e[2], place[e[3]]});
  std::sort(kept.edges.begin(), kept.edges.end());
  kept.edges.erase(std::unique(kept.edges.begin(), kept.edges.end()), kept.edges.end());
  t = std::move(kept);
  return true;
}

struct Program {
  Random& rng;
  std::vector<SomeTable> tables;
  std::vector<SomeNode> nodes;
  bool exact = true;  // no bag is so large that some orders of members are left out
  bool long_texts = false;  // some bound is large
  bool budgets = false;     // some part has one
  bool apart = false;       // some items differ

  int add(SomeNode n) {
    nodes.push_back(std::move(n));
    return int(nodes.size()) - 1;
  }

  char letter() { return "abc"[rng.below(3)]; }

  int text(const std::string& word) {
    if (word.empty()) return add({});
    SomeTable t;
    for (size_t i = 0; i < word.size(); ++i) t.edges.push_back({i32(i), u8(word[i]), u8(word[i]), i32(i) + 1});
    t.label.assign(word.size(), NONE);
    t.label.push_back(0);
    t.between.assign(t.label.size(), 0);
    tables.push_back(t);
    SomeNode n;
    n.kind = LEX;
    n.tables = {int(tables.size()) - 1};
    return add(n);
  }

  void bounds(SomeNode& n) {
    const int lows[] = {0, 0, 1, 2, 3};
    n.low = lows[rng.below(5)];
    if (rng.chance(0.003)) {
      long_texts = true;
      n.low = n.kind == COUNT ? rng.below(70) : i64(rng.source() % (u64(1) << rng.between(3, rng.chance(0.98) ? 5 : 31)));
    }
    n.high = rng.chance(0.3) ? -1 : std::max<i64>(1, n.low + rng.below(3));
  }

  // A table of a few states; NONE if it accepts nothing.
  int table(bool deterministic, bool counted) {
    SomeTable t;
    int size = rng.between(1, 4);
    const i32 cuts[] = {0, 'a', 'b', 'c', 'd', 256};
    for (int s = 0; s < size; ++s)
      if (deterministic) {
        for (int i = 0; i < 5; ++i)
          if (rng.chance(i == 0 || i == 4 ? 0.1 : 0.45)) t.edges.push_back({s, cuts[i], cuts[i + 1] - 1, rng.below(size)});
      } else {
        for (int i = rng.below(3); i > 0; --i) {
          int low = rng.chance(0.1) ? 0 : 1 + rng.below(3), high = rng.chance(0.1) ? 5 : rng.between(low + 1, 4);
          t.edges.push_back({s, cuts[low], cuts[high] - 1, rng.below(size)});
        }
      }
    for (int s = 0; s < size; ++s) {
      t.label.push_back(rng.chance(0.4) ? 0 : NONE);
      t.between.push_back(counted && rng.chance(0.6));
    }
    if (!trim(t)) return NONE;
    tables.push_back(t);
    return int(tables.size()) - 1;
  }

  // A table, beside one that reads nearly the same: its states are pairs of states, as far as both read a text.
  SomeTable beside(const SomeTable& given, int number) {
    const SomeTable& base = tables[number];
    SomeTable t;
    t.base = number;
    std::map<std::pair<i32, i32>, i32> place{{{0, 0}, 0}};
    std::vector<std::pair<i32, i32>> states{{0, 0}};
    auto move = [](const SomeTable& of, i32 s, i32 byte) {
      for (auto& e : of.edges)
        if (e[0] == s && e[1] <= byte && byte <= e[2]) return e[3];
      return NONE;
    };
    std::set<i32> cuts{0, 256};
    for (const SomeTable* of : {&given, &base})
      for (auto& e : of->edges) cuts.insert({e[1], e[2] + 1});
    std::vector<u8> differs;
    for (size_t i = 0; i < states.size(); ++i) {
      auto [here, there] = states[i];
      t.label.push_back(given.label[here]);
      t.between.push_back(0);
      t.in_base.push_back(there);
      bool apart = there == NONE || base.label[there] != given.label[here];
      for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
        i32 after = move(given, here, *cut), other = there == NONE ? NONE : move(base, there, *cut);
        apart |= (after == NONE) != (other == NONE);
        if (after == NONE) continue;
        auto [at, made] = place.insert({{after, other}, i32(states.size())});
        if (made) states.push_back({after, other});
        t.edges.push_back({i32(i), *cut, *std::next(cut) - 1, at->second});
      }
      t.apart.push_back(apart);
    }
    for (size_t turn = 0; turn < states.size(); ++turn)
      for (auto& e : t.edges) t.apart[e[0]] |= t.apart[e[3]];
    return t;
  }

  // A table that reads nearly what another does; NONE if it accepts nothing.
  int sharing(int number) {
    SomeTable t = tables[number];
    for (int changes = rng.between(1, 2); changes > 0; --changes) {
      int change = rng.below(3);
      if (change == 0 || t.edges.empty()) t.label[rng.below(int(t.label.size()))] = rng.chance(0.5) ? 0 : NONE;
      else if (change == 1) t.edges.erase(t.edges.begin() + rng.below(int(t.edges.size())));
      else t.edges[rng.below(int(t.edges.size()))][3] = rng.below(int(t.label.size()));
    }
    if (!trim(t)) return NONE;
    tables.push_back(beside(t, number));
    return int(tables.size()) - 1;
  }

  int leaf() {
    SomeNode n;
    int kind = rng.below(3);
    if (kind == 0) {
      std::string word;
      for (int i = rng.below(3); i > 0; --i) word += letter();
      return text(word);
    }
    n.kind = kind == 1 ? LEX : COUNT;
    bool deterministic = rng.chance(kind == 1 ? 0.8 : 0.5);
    int found = table(deterministic, kind == 2);
    if (found == NONE) return text("");
    if (kind == 1 && deterministic && rng.chance(0.4))
      if (int other = sharing(found); other != NONE) found = other;
    n.tables = {found};
    if (kind == 2) {
      bounds(n);
      if (n.low == 0 && n.high < 0) n.low = 1;
    }
    return add(n);
  }

  int node(int depth, const std::vector<int>& rules) {
    if (depth == 0 || rng.chance(0.15)) return leaf();
    SomeNode n;
    for (int i = rng.between(1, 3); i > 0; --i) n.parts.push_back(node(depth - 1, rules));
    if (rng.chance(0.1)) n.parts.push_back(rng.below(int(nodes.size())));
    if (rng.chance(0.2)) return observed(add(n));
    switch (rng.below(5)) {
      case 0: break;
      case 1: n.kind = ALT; break;
      case 2:
        n.kind = REPEAT;
        n.parts = {n.parts[0], rng.chance(0.1) ? n.parts.back() : text(rng.chance(0.4) ? std::string(1, letter()) : "")};
        bounds(n);
        break;
      case 3: return bag(n.parts);
      default:
        if (!rules.empty()) return rules[rng.below(int(rules.size()))];
        n.kind = ALT;
    }
    return add(n);
  }

  int observed(int part) {
    SomeNode n;
    n.parts = {part};
    n.kind = Kind(rng.between(WITHIN, ITEM));
    if (n.kind == WITHIN) {
      n.tables = {table(true, false)};
      if (n.tables[0] == NONE) return part;
    } else if (n.kind == TOKENS) {
      bounds(n);
      budgets = true;
    } else if (n.kind == APART && rng.chance(0.7)) {  // a list of items
      SomeNode item, list;
      item.kind = ITEM;
      item.parts = {part};
      list.kind = REPEAT;
      list.parts = {add(item), text(rng.chance(0.6) ? std::string(1, letter()) : "")};
      bounds(list);
      n.parts = {add(list)};
    }
    apart |= n.kind == APART;
    return add(n);
  }

  SomeTable names_table(const std::string& before, const std::vector<std::string>& words, const std::vector<i32>& label) {
    SomeTable t;
    std::map<std::string, i32> state{{"", 0}};
    t.label = {NONE};
    for (size_t i = 0; i < words.size(); ++i) {
      std::string word = before + words[i];
      for (size_t end = 1; end <= word.size(); ++end) {
        auto [at, made] = state.insert({word.substr(0, end), i32(t.label.size())});
        if (!made) continue;
        t.label.push_back(NONE);
        t.edges.push_back({state[word.substr(0, end - 1)], u8(word[end - 1]), u8(word[end - 1]), at->second});
      }
      t.label[state[word]] = label[i];
    }
    t.between.assign(t.label.size(), 0);
    trim(t);
    return t;
  }

  int bag(std::vector<int> values) {
    if (rng.chance(0.03))  // a large one
      while (values.size() < 7) values.push_back(rng.chance(0.5) ? leaf() : values[0]);
    if (values.size() > EVERY_ORDER) exact = false;
    SomeNode n;
    n.kind = BAG;
    std::vector<std::string> words;
    for (const char* word : {"", "a", "b", "aa", "ab", "ba", "bb"}) words.push_back(std::string(word) + 'c');
    std::shuffle(words.begin(), words.end(), rng.source);
    size_t names = std::min(words.size(), values.size() + rng.below(3));
    std::string separator(rng.below(2), letter());
    std::vector<i32> label;
    for (size_t i = 0; i < names; ++i) label.push_back(i32(i < values.size() ? i : (i * 7 + 3) % values.size()));
    int fewer = rng.chance(0.5) ? rng.between(1, int(names)) : 0;  // of a base
    for (const std::string& before : {std::string(), separator}) {
      if (fewer) tables.push_back(names_table(before, {words.begin(), words.begin() + fewer}, label));
      SomeTable t = names_table(before, {words.begin(), words.begin() + names}, label);
      tables.push_back(fewer ? beside(t, int(tables.size()) - 1) : t);
      n.tables.push_back(int(tables.size()) - 1);
    }
    n.members = rng.between(0, int(values.size()));
    for (int m = 0; m < n.members; ++m)
      if (rng.chance(0.3)) n.required.push_back(m);
    bounds(n);
    n.low = std::max(n.low, i64(n.required.size()));
    n.ordered = rng.chance(0.5);
    n.parts = std::move(values);
    return add(n);
  }

  int make(int depth) {
    bool left_recursive = rng.chance(0.01);
    std::vector<int> rules;
    for (int i = 0; i < 2; ++i) {
      SomeNode n;
      n.kind = RULE;
      rules.push_back(add(n));
    }
    for (int rule : rules) {
      SomeNode begun, body;
      int first = text(std::string(1, letter()));
      begun.parts = {first, node(depth - 1, rules)};
      if (left_recursive) std::swap(begun.parts[0], begun.parts[1]);
      body.kind = ALT;
      body.parts = {add(begun)};
      if (rng.chance(0.6)) body.parts.push_back(leaf());
      int found = add(body);
      nodes[rule].parts = {found};
    }
    return node(depth, rules);
  }

  // ---------------------------------------------------------------- what a program means

  // Of COUNT: whether a state can be completed after so many characters.
  std::vector<std::vector<u8>> alive(const SomeNode& n) const {
    const SomeTable& t = tables[n.tables[0]];
    i64 last = n.high < 0 ? n.low : n.high;
    std::vector<std::vector<u8>> found(last + 1, std::vector<u8>(t.label.size(), 0));
    for (i64 c = n.low; c <= last; ++c)
      for (size_t s = 0; s < t.label.size(); ++s) found[c][s] = t.label[s] >= 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (i64 c = last; c >= 0; --c)
        for (auto& e : t.edges) {
          i64 after = c + t.between[e[3]];
          if (n.high < 0) after = std::min(after, last);
          if (after <= last && found[after][e[3]] && !found[c][e[0]]) found[c][e[0]] = changed = true;
        }
    }
    return found;
  }

  std::vector<u8> with_texts() const {
    std::vector<u8> has(nodes.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < nodes.size(); ++i)
        if (!has[i] && has_text(nodes[i], has)) has[i] = changed = true;
    }
    return has;
  }

  bool has_text(const SomeNode& n, const std::vector<u8>& has) const {
    auto part = [&](int p) { return bool(has[p]); };
    switch (n.kind) {
      case LEX: return true;
      case COUNT: return alive(n)[0][0];
      case SEQ: return std::all_of(n.parts.begin(), n.parts.end(), part);
      case REPEAT: return n.low == 0 || (part(n.parts[0]) && (n.low == 1 || part(n.parts[1])));
      case BAG: {
        i64 members = 0, others = 0;
        for (int label = 0; label < int(n.parts.size()); ++label) (label < n.members ? members : others) += part(n.parts[label]);
        for (i32 label : n.required)
          if (!part(n.parts[label])) return false;
        return (n.high < 0 || n.low <= n.high) && (others || members >= n.low);
      }
      default: return std::any_of(n.parts.begin(), n.parts.end(), part);
    }
  }

  // The short texts of all nodes.
  std::vector<Language> languages() const {
    std::vector<Language> found(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].kind == LEX || nodes[i].kind == COUNT) found[i] = of_leaf(nodes[i]);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].kind == LEX || nodes[i].kind == COUNT) continue;
        Language now = language(nodes[i], found);
        changed |= now != found[i];
        found[i] = now;
      }
    }
    return found;
  }

  // The labels that are accepted after a text, after each number of characters.
  std::set<std::pair<i32, i64>> accepted(const SomeTable& t, const std::string& text) const {
    std::set<std::pair<i32, i64>> now{{0, 0}};
    for (char c : text) {
      std::set<std::pair<i32, i64>> next;
      for (auto [state, count] : now)
        for (auto& e : t.edges)
          if (e[0] == state && e[1] <= u8(c) && u8(c) <= e[2]) next.insert({e[3], count + t.between[e[3]]});
      now.swap(next);
    }
    std::set<std::pair<i32, i64>> found;
    for (auto [state, count] : now)
      if (t.label[state] >= 0) found.insert({t.label[state], count});
    return found;
  }

  Language of_leaf(const SomeNode& n) const {
    Language found;
    for (int i = 0; i < TEXTS; ++i)
      for (auto [label, count] : accepted(tables[n.tables[0]], texts[i]))
        if (n.kind != COUNT || (count >= n.low && (n.high < 0 || count <= n.high))) found[i] = true;
    return found;
  }

  Language language(const SomeNode& n, const std::vector<Language>& of) const {
    Language found;
    switch (n.kind) {
      case SEQ:
        found[0] = true;
        for (int part : n.parts) found = join(found, of[part]);
        return found;
      case REPEAT: {
        if (n.low == 0) found[0] = true;
        Language more = join(of[n.parts[1]], of[n.parts[0]]), now = of[n.parts[0]];
        i64 least = std::min<i64>(n.low, LONGEST + 2), last = least + LONGEST + 2;  // beyond, some of them are empty
        for (i64 count = 1; count <= (n.high < 0 ? last : std::min(n.high, last)); ++count, now = join(now, more))
          if (count >= least) found |= now;
        return found;
      }
      case BAG: return members(n, of);
      case WITHIN: return of[n.parts[0]] & of_leaf(n);
      default:
        for (int part : n.parts) found |= of[part];
        return found;
    }
  }

  Language members(const SomeNode& n, const std::vector<Language>& of) const {
    Language found;
    std::vector<std::vector<Language>> names(2, std::vector<Language>(n.parts.size()));
    for (int turn : {0, 1})
      for (int i = 0; i < TEXTS; ++i)
        for (auto [label, count] : accepted(tables[n.tables[turn]], texts[i])) names[turn][label][i] = true;
    struct At {
      Language texts;
      u64 read;
      i64 count;
      i32 last;
    };
    Language empty;
    empty[0] = true;
    std::vector<At> todo{{empty, 0, 0, 0}};
    while (!todo.empty()) {
      At at = todo.back();
      todo.pop_back();
      bool complete = at.count >= n.low && (n.high < 0 || at.count <= n.high);
      for (i32 label : n.required) complete = complete && (at.read >> label & 1);
      if (complete) found |= at.texts;
      for (i32 label = 0; label < i32(n.parts.size()); ++label) {
        if (label < n.members && (at.read >> label & 1)) continue;
        if (n.ordered && label < n.members && label < at.last) continue;
        Language next = join(join(at.texts, names[at.count > 0][label]), of[n.parts[label]]);
        if (next.any()) todo.push_back({next, at.read | 1ull << label, at.count + 1, label < n.members ? label : at.last});
      }
    }
    return found;
  }

  std::string shown(int root) const {
    std::string found = "root " + std::to_string(root) + "\n";
    std::set<int> all{root}, tables_seen;
    for (std::vector<int> todo{root}; !todo.empty();) {
      int at = todo.back();
      todo.pop_back();
      for (int part : nodes[at].parts)
        if (all.insert(part).second) todo.push_back(part);
      for (int t : nodes[at].tables) tables_seen.insert(t), tables_seen.insert(tables[t].base);
    }
    const char* kinds[] = {"LEX", "SEQ", "ALT", "RULE", "REPEAT", "COUNT", "BAG", "WITHIN", "TOKENS", "APART", "ITEM"};
    for (int i : all) {
      const SomeNode& n = nodes[i];
      found += "node " + std::to_string(i) + ": " + kinds[n.kind] + " parts";
      for (int part : n.parts) found += " " + std::to_string(part);
      found += " tables";
      for (int t : n.tables) found += " " + std::to_string(t);
      found += " low " + std::to_string(n.low) + " high " + std::to_string(n.high) + " members " + std::to_string(n.members) + " required";
      for (i32 r : n.required) found += " " + std::to_string(r);
      found += n.ordered ? " ordered\n" : "\n";
    }
    for (int i : tables_seen) {
      if (i < 0) continue;
      const SomeTable& t = tables[i];
      found += "table " + std::to_string(i) + ": labels";
      for (i32 label : t.label) found += " " + std::to_string(label);
      found += " between ";
      for (u8 b : t.between) found += char('0' + b);
      for (auto& e : t.edges) found += " | " + std::to_string(e[0]) + " " + std::to_string(e[1]) + "-" + std::to_string(e[2]) + " " + std::to_string(e[3]);
      if (t.base >= 0) {
        found += " base " + std::to_string(t.base) + " in";
        for (i32 s : t.in_base) found += " " + std::to_string(s);
        found += " apart ";
        for (u8 b : t.apart) found += char('0' + b);
      }
      found += "\n";
    }
    return found;
  }
};

// ---------------------------------------------------------------- the core

Trie trie_of(std::vector<std::string> tokens) {
  std::set<std::string> all{""};
  for (const std::string& text : tokens)
    for (size_t end = 1; end <= text.size(); ++end) all.insert(text.substr(0, end));
  Trie t;
  t.own_begin = {0};
  std::vector<std::string> level{""};
  std::vector<i32> children;
  while (!level.empty()) {
    std::vector<std::string> next;
    for (const std::string& text : level) {
      t.byte.push_back(text.empty() ? 0 : u8(text.back()));
      for (size_t i = 0; i < tokens.size(); ++i)
        if (!text.empty() && tokens[i] == text) t.own.push_back(i32(i));
      t.own_begin.push_back(i32(t.own.size()));
      size_t before = next.size();
      for (int b = 0; b < 256; ++b)
        if (std::string child = text + char(b); all.count(child)) next.push_back(child);
      children.push_back(i32(next.size() - before));
    }
    level.swap(next);
  }
  t.first = {1};
  for (i32 count : children) t.first.push_back(t.first.back() + count);
  t.text = std::move(tokens);
  t.vocab = i32(t.text.size());
  t.words = (t.vocab + 31) / 32;
  t.put_in_order();
  return t;
}

i32 add_table(Core& core, const SomeTable& given, const std::vector<i32>& number) {
  std::vector<i32> edges;
  for (auto& e : given.edges) edges.insert(edges.end(), e.begin(), e.end());
  return core.add_table(edges.data(), given.edges.size(), given.label, given.between, given.base < 0 ? NONE : number[given.base], given.in_base,
                        given.apart);
}

i32 of_kind(Core& core, Kind kind, std::vector<i32> parts, std::vector<i32> tables = {}) {
  return core.add_node(kind, std::move(parts), std::move(tables), 0, -1, {}, 0, false, {}, {});
}

// The root of a program, NONE if it has no texts.
i32 add_program(Core& core, const Program& p, int root) {
  std::vector<u8> has = p.with_texts();
  if (!has[root]) return NONE;
  std::vector<i32> number;
  for (const SomeTable& t : p.tables) number.push_back(add_table(core, t, number));
  i32 nothing = of_kind(core, ALT, {}), empty = of_kind(core, SEQ, {});
  std::vector<i32> made(p.nodes.size(), nothing);
  for (size_t i = 0; i < p.nodes.size(); ++i)
    if (has[i] && p.nodes[i].kind == RULE) made[i] = of_kind(core, RULE, {});
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const SomeNode& given = p.nodes[i];
    if (!has[i] || given.kind == RULE) continue;
    std::vector<i32> parts, tables;
    for (int part : given.parts)
      if (has[part] || given.kind != ALT) parts.push_back(made[part]);
    for (int t : given.tables) tables.push_back(number[t]);
    if (given.kind == REPEAT && !has[given.parts[0]]) {
      made[i] = empty;
      continue;
    }
    if (given.kind == REPEAT && !has[given.parts[1]]) {
      made[i] = given.low ? parts[0] : of_kind(core, ALT, {empty, parts[0]});
      continue;
    }
    std::vector<i64> begins;
    std::vector<std::vector<u8>> sets;
    if (given.kind == COUNT) sets = p.alive(given);
    for (size_t count = 0; count < sets.size(); ++count) begins.push_back(i64(count));
    made[i] = core.add_node(given.kind, std::move(parts), std::move(tables), given.low, given.high, given.required, given.members, given.ordered,
                            std::move(begins), std::move(sets));
  }
  for (size_t i = 0; i < p.nodes.size(); ++i)
    if (has[i] && p.nodes[i].kind == RULE) core.define(made[i], made[p.nodes[i].parts[0]]);
  return made[root];
}

// ---------------------------------------------------------------- what must hold

struct Checked {
  const Trie& trie;
  Stacks& stacks;
  Masks& masks;
  Random& rng;
  bool exact, every_byte;  // every_byte: all texts can be written, in few tokens
  bool spelled;            // masks are told so
  bool all_end;            // what may be read has an end

  // The configuration after a text, NONE if it cannot be read.
  i32 reached(i32 configuration, const std::string& text) {
    for (size_t i = 0; i < text.size() && configuration != NONE; ++i) configuration = stacks.step(configuration, u8(text[i]));
    return configuration;
  }

  i32 token(i32 configuration, i32 token) {
    return trie.text[token].empty() ? NONE : stacks.token_end(reached(configuration, trie.text[token]));
  }

  bool accepting(i32 configuration) const { return stacks.configurations[configuration].accepting; }

  // The fewest steps to acceptance, breadth first: those of tokens, or of bytes; −1 if they are more, −2 if that takes too long, −3
  // if there are none.
  int steps(i32 configuration, int most, bool bytes) {
    std::set<i32> seen{configuration};
    std::vector<i32> layer{configuration};
    for (int taken = 0; taken <= most && !layer.empty(); ++taken) {
      std::vector<i32> next;
      for (i32 at : layer) {
        if (accepting(at)) return taken;
        auto meet = [&](i32 to) {
          if (to != NONE && seen.insert(to).second) next.push_back(to);
        };
        if (taken == most) continue;
        if (bytes)
          for (char c : {'a', 'b', 'c', '\0', 'z'}) meet(stacks.step(at, u8(c)));
        else
          for (i32 t = 0; t < trie.vocab; ++t) meet(token(at, t));
        if (seen.size() > 300) return -2;
      }
      layer.swap(next);
      if (layer.empty() && taken < most) return -3;
    }
    return -1;
  }

  void texts_of(i32 start, const Language& wanted) {
    for (int i = 0; i < TEXTS; ++i) {
      i32 after = reached(start, texts[i]);
      if ((after != NONE && accepting(after)) != wanted[i]) fail("the text " + quoted(texts[i]) + " is " + (wanted[i] ? "not accepted" : "accepted"));
    }
  }

  std::string at(const std::string& text, i32 token) const { return "after " + quoted(text) + ", token " + quoted(trie.text[token]) + ": "; }

  static bool has(const std::vector<u32>& words, i32 token) { return words[token >> 5] >> (token & 31) & 1; }

  void mask(i32 c, const std::string& text) {
    std::vector<u32> words(trie.words, ~0u);
    masks.words(c, spelled).write(words.data(), i32(words.size()));
    i64 enough = masks.enough(c, spelled);
    for (i32 t = 0; t < trie.vocab; ++t) {
      i32 next = token(c, t);
      if (next == NONE && has(words, t)) fail(at(text, t) + "in the mask, but it cannot be read");
      if (next == NONE) continue;
      int most = int(std::min<i64>(enough, 12)), truth = steps(next, most, spelled);
      if (!has(words, t) && (all_end || (truth >= 0 && (exact || spelled)))) fail(at(text, t) + "not in the mask");
      if (!has(words, t)) continue;
      if (truth == -3) fail(at(text, t) + "in the mask, a dead end");
      if (truth == -1 && enough <= 12) fail(at(text, t) + "more steps are needed than " + std::to_string(enough));
    }
    for (i32 t = trie.vocab; t < 32 * trie.words; ++t)
      if (has(words, t)) fail("a bit beyond the vocabulary");
    if (enough >= (spelled ? ENDLESS : FAR)) fail("after " + quoted(text) + ": no end is known");
  }

  void fewest(i32 c, const std::string& text) {
    int most = rng.below(7), truth = steps(c, most, false);
    i32 found = masks.fewest(c, most, spelled);
    std::string told = "after " + quoted(text) + ": fewest " + std::to_string(found) + " of at most " + std::to_string(most) + ", truly " + std::to_string(truth);
    if (truth >= 0 && exact && found != truth) fail(told);
    if (truth >= 0 && !exact && found < truth) fail(told);
    if ((truth == -1 || truth == -3) && found <= most) fail(told);
    if (every_byte && masks.fewest(c, SOME, spelled) >= FAR) fail("after " + quoted(text) + ": no end within any number of tokens");
  }

  void within(i32 c, const std::string& text) {
    int left = rng.below(6);
    std::vector<u32> words(trie.words, ~0u);
    masks.words_within(c, left, spelled).write(words.data(), i32(words.size()));
    for (i32 t = 0; t < trie.vocab; ++t) {
      i32 next = token(c, t);
      std::string told = at(text, t) + "with " + std::to_string(left) + " left ";
      if (next == NONE) {
        if (has(words, t)) fail(told + "in the mask, but it cannot be read");
        continue;
      }
      int truth = steps(next, left, false);
      if (has(words, t) && (truth == -1 || truth == -3)) fail(told + "in the mask, a dead end");
      if (has(words, t) && masks.fewest(next, left, spelled) > left) fail(told + "in the mask, but fewest is more; " + std::to_string(truth) + " truly, fewest " + std::to_string(masks.fewest(next, left, spelled)));
      if (!has(words, t) && truth >= 0 && exact)
        fail(told + "not in the mask; " + std::to_string(truth) + " truly, fewest " + std::to_string(masks.fewest(next, left, spelled)));
    }
  }

  // With the fewest tokens left there is a token.
  void kept(i32 c, const std::string& text) {
    i32 fewest = masks.fewest(c, 12, spelled);
    if (fewest == 0 || fewest > 12) return;
    std::vector<u32> words(trie.words);
    masks.words_within(c, fewest - 1, spelled).write(words.data(), i32(words.size()));
    for (u32 word : words)
      if (word) return;
    fail("after " + quoted(text) + ": " + std::to_string(fewest) + " tokens are enough, and no token is in the mask");
  }

  void walk(i32 c) {
    std::string text;
    for (int i = rng.between(1, 5); i > 0; --i) {
      for (int turn = rng.between(1, 4); turn > 0; --turn) switch (rng.below(4)) {
          case 0: mask(c, text); break;
          case 1: fewest(c, text); break;
          case 2: within(c, text); break;
          default: kept(c, text);
        }
      i32 next = NONE;
      std::string read;
      for (int tries = 0; tries < 6 && next == NONE; ++tries) {
        if (rng.chance(0.8)) {
          i32 t = rng.below(trie.vocab);
          next = token(c, t), read = trie.text[t];
        } else {
          read = std::string(1, char(rng.chance(0.8) ? "abc"[rng.below(3)] : char(rng.below(256))));
          next = reached(c, read);
        }
      }
      if (next == NONE) return;
      c = stacks.token_end(next), text += read;
    }
  }
};

std::vector<std::string> some_tokens(Random& rng) {
  std::vector<std::string> tokens;
  for (const char* c : {"a", "b", "c"})
    if (rng.chance(0.9)) tokens.push_back(c);
  for (char c : {'\0', 'z', '\xff'})
    if (rng.chance(0.6)) tokens.push_back(std::string(1, c));
  int most = rng.chance(0.05) ? 60 : 5;
  for (int i = rng.between(1, most); i > 0; --i) {
    std::string text;
    for (int size = rng.between(2, most == 5 ? 3 : 5); size > 0; --size) text += rng.chance(0.95) ? "abc"[rng.below(3)] : '\xff';
    tokens.push_back(text);
  }
  if (rng.chance(0.2)) tokens.push_back("");
  if (rng.chance(0.1)) tokens.push_back(tokens[0]);
  std::shuffle(tokens.begin(), tokens.end(), rng.source);
  return tokens;
}

// Prints the answers along some texts, whether or not they are right.
struct Answers {
  Stacks& stacks;
  Masks& masks;
  Random& rng;
  const Trie& trie;
  bool exact, spelled;

  template <class Asked>
  void answer(const std::string& name, Asked asked) {
    std::string found;
    try {
      found = std::to_string(asked());
    } catch (const LimitPassed&) {
      found = "-";
    } catch (const Exhausted&) {
      found = "-";
    }
    std::printf(" %s%s", name.c_str(), found.c_str());
  }

  u64 digest(const TokenSet& set) {
    std::vector<u32> words(trie.words);
    set.write(words.data(), i32(words.size()));
    u64 found = 0;
    for (u32 word : words) found = mixed(found, word);
    return found % 1000000;
  }

  void walk(i32 c) {
    for (int turn = 0; turn < 6; ++turn) {
      answer("end", [&] { return masks.after_token(c, spelled) != NONE; });
      answer("mask", [&] { return digest(masks.words(c, spelled)); });
      const int most = rng.between(0, 40), left = rng.below(12);
      answer(exact ? "fewest" : "~fewest", [&] { return std::min(masks.fewest(c, most, spelled), most + 1); });
      answer(exact ? "within" : "~within", [&] { return digest(masks.words_within(c, left, spelled)); });
      i32 next = NONE;
      for (int tries = 0; tries < 6; ++tries) {
        const std::string& text = trie.text[rng.below(trie.vocab)];
        i32 after = text.empty() ? NONE : c;
        for (size_t i = 0; i < text.size() && after != NONE; ++i) after = stacks.step(after, u8(text[i]));
        if (after != NONE && next == NONE) next = stacks.token_end(after);
      }
      if (next == NONE) return;
      c = next;
    }
  }
};

// What must hold of a program whose texts begin at `start`.
void check(const Trie& trie, Stacks& stacks, Masks& masks, Random& rng, const Program& p, int root, i32 start, bool every_byte) {
  bool looks = false;  // at bytes
  for (const SomeNode& n : p.nodes) looks |= n.kind == WITHIN || n.kind == APART;
  if (start == NONE && (p.budgets || looks)) return;
  if (start == NONE) fail("a program with texts has no beginning");
  bool spelled = !p.budgets && every_byte && rng.chance(0.7);
  if (p.apart)  // any byte may tell items apart
    for (const auto& t : p.tables)
      for (const auto& e : t.edges)
        for (int b = e[1]; b <= e[2]; ++b) spelled = spelled && std::find(trie.text.begin(), trie.text.end(), std::string(1, char(b))) != trie.text.end();
  if (answering) {
    bool every_order = true, differ = false;
    for (const SomeNode& n : p.nodes) every_order &= n.kind != BAG || n.parts.size() < 2, differ |= n.kind == APART;
    for (int walks = 0; walks < 3; ++walks) Answers{stacks, masks, rng, trie, every_order && !differ, spelled}.walk(start);
    return;
  }
  Checked checked{trie, stacks, masks, rng, p.exact && !p.apart, every_byte && !p.long_texts && !p.budgets && !looks, spelled, spelled && !looks};
  if (rng.chance(0.5)) checked.walk(start);
  if (!p.budgets && !p.apart) checked.texts_of(start, p.languages()[root]);
  if (spelled) {
    int truth = checked.steps(start, 12, true);
    bool empty = masks.after_token(start, true) == NONE;
    if (empty ? truth >= 0 : truth == -3) fail(empty ? "said to be empty" : "not said to be empty");
  }
  checked.walk(start);
}

void one_input() {
  Random rng{std::mt19937_64(current)};
  std::vector<std::string> tokens = some_tokens(rng);
  bool every_byte = true;
  for (char c : {'a', 'b', 'c', '\0', 'z', '\xff'})
    every_byte = every_byte && std::find(tokens.begin(), tokens.end(), std::string(1, c)) != tokens.end();
  Core core(std::make_shared<Trie>(trie_of(tokens)), rng.chance(0.5) ? 1 : MUCH);
  allowed = 1000000;
  about = "tokens";
  for (const std::string& token : tokens) about += " " + quoted(token);
  about += "\n";
  std::vector<i32> starts;
  for (int programs = rng.between(1, 2); programs > 0; --programs) {  // the second beside what is known of the first
    Program p{rng, {}, {}};
    int root = p.make(rng.between(1, 3));
    about += p.shown(root);
    i32 node = add_program(core, p, root);
    if (node == NONE) continue;
    try {
      core.asked([&](Stacks& stacks, Masks& masks) { check(core.trie(), stacks, masks, rng, p, root, stacks.start(node), every_byte); });
    } catch (const LimitPassed&) {
      if (answering) return;  // of what follows, other numbers would be drawn
    } catch (const Exhausted&) {  // so many steps are refused in Python
      if (answering) return;
    }
  }
}

// Brackets as deep as allowed: a typed error, and distances from the depth.
void nested() {
  Core core(std::make_shared<Trie>(trie_of({"a", "b", "c"})), 1);
  allowed = ~0ull;
  about = "nested";
  auto byte = [&](u8 b) {
    SomeTable t;
    t.edges = {{0, b, b, 1}};
    t.label = {NONE, 0};
    t.between = {0, 0};
    return of_kind(core, LEX, {}, {add_table(core, t, {})});
  };
  i32 rule = of_kind(core, RULE, {});
  i32 inside = of_kind(core, SEQ, {byte('a'), rule, byte('b')});
  core.define(rule, of_kind(core, ALT, {inside, byte('c')}));
  core.asked([&](Stacks& stacks, Masks& masks) {
    i32 c = stacks.start(rule);
    int depth = 0;
    try {
      for (; depth <= 2 * MOST_DEPTH; ++depth) {
        i32 next = stacks.step(c, 'a');
        if (next == NONE) fail("brackets end");
        c = next;
      }
      fail("no limit of the depth");
    } catch (const LimitPassed&) {
    }
    if (i32 found = masks.fewest(c, SOME, true); found != depth + 1) fail("from the depth " + std::to_string(depth) + ": fewest " + std::to_string(found));
    masks.words_within(c, depth, true);
    std::printf("depth %d\n", depth);
  });
}

}  // namespace

int main(int count, char** given) {
  u64 inputs = count > 1 ? std::strtoull(given[1], nullptr, 10) : 10000;
  u64 seed = count > 2 ? std::strtoull(given[2], nullptr, 10) : 0;
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  list_texts();
  answering = count > 3 && std::string(given[3]) == "answers";
  if (inputs > 1 && !answering) nested();
  for (u64 i = 0; i < inputs; ++i) {
    current = seed + i;
    const std::clock_t begin = std::clock();
    if (answering) std::printf("%llu", (unsigned long long)current);
    one_input();
    if (answering) std::printf("\n%s", inputs == 1 ? about.c_str() : "");
    if (std::clock() - begin > MOST_SECONDS * CLOCKS_PER_SEC) fail("it takes more than a minute");
  }
  if (!answering) std::printf("%llu inputs from seed %llu: nothing found\n", (unsigned long long)inputs, (unsigned long long)seed);
}
