// Programs as automata over tokens, and the masks of many of them at once.
#pragma once

#include <mutex>

#include "masks.h"

namespace tractile {

// Of the calls of one thread: the steps that a call's searches may take, and those that the last one took.
inline thread_local u64 allowed = SLICE, used = 0;

// The engine over one vocabulary: nodes that were given, and their stacks, configurations, masks and distances. One thread at a time.
class Core {
 public:
  explicit Core(std::shared_ptr<Trie> trie, i64 much = MUCH)
      : trie_(std::move(trie)),
        positions_(*trie_),
        lexer_(stacks_.tables, stacks_.observers, positions_, much),
        crossing_(stacks_, positions_, lexer_),
        masks_(stacks_, positions_, lexer_, crossing_) {}

  i32 add_table(const i32* edges, size_t count, std::vector<i32> label, std::vector<u8> between, i32 base, std::vector<i32> in_base,
                std::vector<u8> apart) {
    std::lock_guard<std::mutex> hold(mutex_);
    stacks_.tables.push_back(Table::of(edges, count, std::move(label), std::move(between)));
    if (base != NONE) stacks_.tables.back().share(base, stacks_.tables[base].states, std::move(in_base), std::move(apart));
    const Table& made = stacks_.tables.back();
    table_bytes_ += 4 * made.cells() + 16 * made.moves.size() + 40 * size_t(made.states);
    return i32(stacks_.tables.size() - 1);
  }

  i32 add_node(i32 kind, std::vector<i32> parts, std::vector<i32> tables, i64 low, i64 high, std::vector<i32> required, i32 members,
               bool ordered, std::vector<i64> begins, std::vector<std::vector<u8>> sets) {
    std::lock_guard<std::mutex> hold(mutex_);
    table_bytes_ += 200 + 8 * begins.size() + 4 * parts.size();
    for (const auto& set : sets) table_bytes_ += set.size();
    Node n;
    n.kind = Kind(kind);
    n.parts = std::move(parts);
    n.tables = std::move(tables);
    n.low = low, n.high = high, n.members = members, n.ordered = ordered;
    n.required.assign(n.parts.size() / 64 + 1, 0);
    for (i32 label : required) n.required[label / 64] |= 1ull << label % 64;
    n.begins = std::move(begins);
    n.sets = std::move(sets);
    n.nothing = n.kind == ALT && n.parts.empty();
    stacks_.nodes.push_back(std::move(n));
    return i32(stacks_.nodes.size() - 1);
  }

  void define(i32 rule, i32 body) {
    std::lock_guard<std::mutex> hold(mutex_);
    stacks_.nodes[rule].parts = {body};
  }

  // f(stacks, masks), within the steps that are allowed.
  template <class F>
  auto asked(F&& f) {
    std::lock_guard<std::mutex> hold(mutex_);
    struct Count {  // the steps of this call
      Core& core;
      u64 before;
      ~Count() { used = core.crossing_.taken - before; }
    } count{*this, crossing_.taken};
    crossing_.allow(allowed);
    try {
      return f(stacks_, masks_);
    } catch (const std::bad_alloc&) {
      throw LimitPassed("the engine is out of memory");
    }
  }

  const Trie& trie() const { return *trie_; }

  // What is kept; while another call goes on, what was kept before.
  size_t bytes() {
    std::unique_lock<std::mutex> hold(mutex_, std::try_to_lock);
    if (hold) kept_ = size();
    return kept_;
  }

  // What was done, and what that takes, by name.
  std::vector<std::pair<const char*, u64>> work() {
    std::lock_guard<std::mutex> hold(mutex_);
    return {{"lexed", lexer_.visited},
            {"crossed", crossing_.taken},
            {"configurations", stacks_.configurations.size()},
            {"bytes of stacks", stacks_.bytes()},
            {"bytes of positions", positions_.bytes()},
            {"bytes of lexemes", lexer_.bytes()},
            {"bytes of distances", crossing_.bytes()},
            {"bytes of masks", masks_.bytes()}};
  }

 private:
  size_t size() const { return table_bytes_ + stacks_.bytes() + positions_.bytes() + lexer_.bytes() + crossing_.bytes() + masks_.bytes(); }

  std::shared_ptr<const Trie> trie_;
  Stacks stacks_;
  Positions positions_;
  Lexer lexer_;
  Crossing crossing_;
  Masks masks_;
  std::mutex mutex_;
  size_t table_bytes_ = 0;
  std::atomic<size_t> kept_{0};
};

// A program of a core as an automaton over tokens. Its states are the configurations, NONE and SINK, the state after the end token.
class Automaton {
 public:
  static constexpr i32 SINK = -2;

  // `spelled`: whether the tokens write all that the program reads, so that what may be read has an end. `ends`: whether a text is
  // finished only by the end token.
  Automaton(std::shared_ptr<Core> core, i32 node, bool spelled, bool ends) : core_(std::move(core)), spelled_(spelled), ends_(ends) {
    start_ = core_->asked([&](Stacks& stacks, Masks& masks) {
      std::vector<i32> reached;
      exact_ = !reaches(stacks.nodes, node, reached, [](const Node& n) { return n.kind == APART || (n.kind == BAG && n.parts.size() > EVERY_ORDER); });
      return masks.after_token(stacks.start(node), spelled_);
    });
  }

  i32 start() const { return start_; }

  // Whether all distances are exact: of items that must differ, and of bags with many kinds of members, they may be upper bounds.
  bool is_exact() const { return exact_; }

  // Whether the mask of a state with a budget is; it is where the budget takes nothing away.
  bool exact(i32 state, i64 budget) {
    return exact_ || state < 0 || budget <= 0 || core_->asked([&](Stacks&, Masks& masks) {
      return &masks.words_within(state, left(budget), spelled_) == &masks.words(state, spelled_);
    });
  }
  const Trie& trie() const { return core_->trie(); }

  i32 step(i32 state, i32 token) {
    const Trie& trie = core_->trie();
    if (token == trie.eos) return state == SINK || (state != NONE && finished(state)) ? SINK : NONE;
    if (state < 0 || trie.text.at(token).empty()) return NONE;
    return core_->asked([&](Stacks&, Masks& masks) { return masks.after(state, token, spelled_); });
  }

  bool reads(const std::string& text) {
    return start_ != NONE && core_->asked([&](Stacks& stacks, Masks& masks) {
      i32 end = masks.read(start_, text);
      return end != NONE && stacks.configurations[end].accepting;
    });
  }

  // Whether the text may end in a state as it is, without another end token.
  bool accepting(i32 state) {
    return state < 0 || ends_ ? state == SINK : finished(state);
  }

  // The fewest tokens from a configuration to acceptance, if at most `most`, otherwise more.
  i32 fewest(i32 configuration, i32 most) {
    return core_->asked([&](Stacks&, Masks& masks) { return masks.fewest(configuration, most, spelled_); });
  }

  // Whether a configuration is at most `most` tokens from acceptance.
  bool within(i32 configuration, i32 most) {
    return core_->asked([&](Stacks&, Masks& masks) { return masks.fewest(configuration, most, spelled_, false) <= most; });
  }

  // Whether a token is in the mask of a state with a budget: tokens left, the next one and the end token included.
  bool allows(i32 state, i64 budget, i32 token) {
    const i32 eos = core_->trie().eos;
    if (state == NONE || budget <= 0) return false;
    if (state == SINK) return token == eos;
    return core_->asked([&](Stacks& stacks, Masks& masks) {
      const bool accepting = stacks.configurations.at(state).accepting;
      if (token == eos) return accepting;
      return masks.words_within(state, left(budget), spelled_).has(token);
    });
  }

  // Write the mask of a state with a budget, over `width` words.
  void write(i32 state, i64 budget, u32* out, i32 width) const {
    core_->asked([&](Stacks& stacks, Masks& masks) {
      const i32 eos = core_->trie().eos;
      const bool ends = state == SINK || (state >= 0 && stacks.configurations.at(state).accepting);
      if (state < 0 || budget <= 0) std::memset(out, 0, 4 * size_t(width));
      else masks.words_within(state, left(budget), spelled_).write(out, width);
      if (budget > 0 && ends) out[eos >> 5] |= 1u << (eos & 31);
    });
  }

 private:
  // The tokens of the program that may follow the next one; more than can be told apart are any number.
  i64 left(i64 budget) const { return std::min<i64>(budget - 1, ENDLESS) - ends_; }

  // Whether the text of a configuration is one of the program's.
  bool finished(i32 configuration) {
    return core_->asked([&](Stacks& stacks, Masks&) { return stacks.configurations.at(configuration).accepting; });
  }

  std::shared_ptr<Core> core_;
  bool spelled_, ends_;
  i32 start_ = NONE;
  bool exact_ = true;
};

// A row of a batch of masks.
struct Row {
  Automaton* automaton;
  i32 state;
  i64 budget;
  u32* out;
};

// Write rows over `width` words, each of which may take the steps that are allowed. Throws what stopped a row, once all others are
// written.
inline void write(const std::vector<Row>& rows, i32 width) {
  u64 taken = 0;
  bool exhausted = false;
  std::string failed;
  for (size_t i = 0; i < rows.size(); ++i) {
    try {
      rows[i].automaton->write(rows[i].state, rows[i].budget, rows[i].out, width);
    } catch (const Exhausted&) {
      exhausted = true;
    } catch (const LimitPassed& error) {
      if (failed.empty()) failed = "row " + std::to_string(i) + " of a batch: " + error.what();
    }
    taken += used;
  }
  used = taken;
  if (exhausted) throw Exhausted("a row needs more steps than are allowed");
  if (!failed.empty()) throw LimitPassed(failed);
}

}  // namespace tractile
