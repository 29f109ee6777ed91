// Masks: the Boolean next-token query, by frames; within a budget with the distances of `crossing.h`.
#pragma once

#include "observed.h"
#include "token_sets.h"

namespace tractile {

class Masks {
 public:
  Masks(Stacks& stacks, Positions& positions, Lexer& lexer, Crossing& crossing)
      : stacks_(stacks), positions_(positions), lexer_(lexer), crossing_(crossing), sets_(positions.trie().words), observed_(stacks, positions, lexer, crossing) {
    Union nothing;
    sets_.number(nothing);
  }

  // The fewest tokens from a configuration, at the end of a token, to the end of the text, if at most `most`; otherwise more.
  // `spelled`, here and below: whether the tokens write all that the program reads, and no part has a budget.
  i32 fewest(i32 configuration, i32 most, bool spelled, bool exactly = true) {
    const Configuration& c = stacks_.configurations.at(configuration);
    if (c.accepting) return 0;
    i32 best = FAR;
    if (auto known = written_.find(configuration); known != written_.end() && !known->second.empty()) best = i32(known->second.size());
    std::vector<Item> reading = c.reading;
    for (size_t i = 0; exactly && spelled && i < reading.size(); ++i) best = std::min(best, observed_.bound(reading[i], 0, std::min(most, best - 1)));
    for (Item item : reading) {
      if (!exactly && best <= most) break;
      best = std::min(best, observed_.fewest(item, std::min(most, best - 1), spelled, exactly));
    }
    return best;
  }

  // The configuration after the end of a token, NONE if there is none that leads to the end.
  i32 after_token(i32 configuration, bool spelled) {
    i32 found = stacks_.token_end(configuration);
    return found == NONE || rest(found, spelled ? FAR : SOME, spelled) < ENDLESS ? found : NONE;
  }

  // The configuration after a token; the end token reads nothing.
  i32 after(i32 configuration, i32 token, bool spelled) {
    const u64 key = (u64(configuration) << 32 | u64(token)) << 1 | spelled;
    i32 known = after_index_.find(key);
    if (known != NONE) return known - 1;
    stacks_.configurations.at(configuration);  // of a state that was never met this throws
    i32 found = after_token(read(configuration, positions_.trie().text[token]), spelled);
    after_index_.put(key, found + 1);
    return found;
  }

  // The configuration after a text, NONE if it may not come.
  i32 read(i32 configuration, const std::string& text) {
    for (size_t i = 0; i < text.size() && configuration != NONE; ++i) configuration = stacks_.step(configuration, u8(text[i]));
    return configuration;
  }

  // The tokens that may follow.
  const TokenSet& words(i32 configuration, bool spelled) { return sets_[filled(configuration, spelled).set]; }

  // An upper bound of the tokens that complete the text, whichever token comes next.
  i64 enough(i32 configuration, bool spelled) { return filled(configuration, spelled).most; }

  // The tokens that may follow and after which `left` tokens can complete the text.
  const TokenSet& words_within(i32 configuration, i64 left, bool spelled) {
    if (left < 0) return sets_[NOTHING];
    const Known& all = filled(configuration, spelled);
    if (all.most <= left) return sets_[all.set];
    left = std::min<i64>(left, FAR / 2);  // more are not told apart
    Index::Key key{u64(u32(configuration)), u64(left), spelled};
    i32 known = near_index_.find(key);
    if (known == NONE) near_index_.put(key, known = within(configuration, i32(left), spelled));
    return sets_[known];
  }

  size_t bytes() const {
    return sets_.bytes() + observed_.bytes() + known_.size() * sizeof(Known) + near_index_.bytes() + rest_index_.bytes() + after_index_.bytes();
  }

 private:
  using Union = TokenSets::Union;
  static constexpr i32 NOTHING = 0;  // the number of the empty set
  struct Known {
    i32 set = NONE;
    i64 most = 0;
  };

  const Known& filled(i32 configuration, bool spelled) {
    while (i32(known_.size()) <= configuration) known_.emplace_back();
    Known& known = known_[configuration];
    if (known.set == NONE) {
      Union found;  // kept only if nothing stops this
      most_ = 0;
      fill(configuration, Positions::ROOT, spelled ? FAR : SOME, spelled, found);
      known.set = sets_.number(found);
      known.most = most_;
    }
    return known;
  }

  i32 within(i32 configuration, i32 left, bool spelled) {
    for (i64 states : {MOST_SEARCHED, ENDLESS}) {  // more only where no token would be left
      struct Allowance {
        Observed& observed;
        Allowance(Observed& o, i64 states) : observed(o) { observed.allow(states); }
        ~Allowance() { observed.allow(ENDLESS); }
      } allowance(observed_, states);
      Union found;
      fill(configuration, Positions::ROOT, left, spelled, found);
      if (i32 set = sets_.number(found); set != NOTHING) return set;
    }
    return followed(configuration, left, spelled);
  }

  // The tokens by which a known text begins that ends within `left`: for configurations in which bounds after single tokens allow none.
  i32 followed(i32 configuration, i32 left, bool spelled) {
    Union found;
    const std::vector<Item> reading = stacks_.configurations[configuration].reading;
    std::vector<std::string> tokens = written_[configuration];
    for (size_t i = 0; i < reading.size() && (tokens.empty() || i64(tokens.size()) > left + 1); ++i) tokens = observed_.written(reading[i], left + 1, spelled);
    if (!tokens.empty() && i64(tokens.size()) <= left + 1) {
      const i32 end = stacks_.token_end(read(configuration, tokens[0])), node = positions_.trie().find(tokens[0], Positions::ROOT);
      if (end != NONE && tokens.size() > 1) written_[end].assign(tokens.begin() + 1, tokens.end());
      if (end != NONE) positions_.tokens(node, [&](i32 token) { found.tokens.push_back(token); });
    }
    for (Item item : reading) {
      if (!stacks_.observers.looks(item.env) || observed_.fewest(item, left + 1, spelled, false) > left + 1) continue;
      const Text text = observed_.witness(item);
      const Trie& trie = positions_.trie();
      i32 node = Positions::ROOT, next = configuration;
      for (size_t size = 1; size <= text.bytes.size(); ++size) {
        const u8 byte = u8(text.bytes[size - 1]);
        if ((node = trie.child(node, byte)) == NONE || (next = stacks_.step(next, byte)) == NONE) break;
        if (trie.own_begin[node] == trie.own_begin[node + 1]) continue;
        const i32 end = stacks_.token_end(next);
        const std::vector<Item> after = stacks_.configurations[end].reading;
        for (Item each : after) observed_.follow(item, size, each);
        if (rest(end, left, spelled) >= ENDLESS) continue;
        found.tokens.insert(found.tokens.end(), trie.own.begin() + trie.own_begin[node], trie.own.begin() + trie.own_begin[node + 1]);
      }
    }
    return sets_.number(found);
  }

  // How far it is from an item, at the end of a token, to the end: the bytes of a text if `left` is FAR, else the tokens, or a bound
  // that is at most `left`. ENDLESS if there is no end, or none within `left`.
  i64 rest(Item item, i32 left, bool spelled) {
    if (left == FAR) {
      i64 bytes = observed_.bytes(item);
      return bytes < ENDLESS || observed_.looks(item) ? bytes : ENDLESS - 1;
    }
    i32 found = observed_.fewest(item, left, spelled, false);
    return found <= left ? found : ENDLESS;
  }

  i64 rest(i32 configuration, i32 left, bool spelled) {
    if (stacks_.configurations.at(configuration).accepting) return 0;
    std::vector<Item> reading = stacks_.configurations[configuration].reading;
    i64 best = ENDLESS;
    if (auto known = written_.find(configuration); left < FAR / 2 && known != written_.end() && !known->second.empty() && i64(known->second.size()) <= left)
      best = i64(known->second.size());
    for (Item item : reading) {
      if (left < SOME && best <= left) break;
      best = std::min(best, rest(item, left == FAR || best > left ? left : i32(best) - 1, spelled));
    }
    return best;
  }

  // The tokens that go on from a configuration, of those in progress at a position.
  // `left` of FAR: no budget, and the tokens write all that is read. Of FAR and SOME, `most_` is as in `enough`.
  void fill(i32 configuration, i32 position, i32 left, bool spelled, Union& out) {
    std::vector<std::pair<i32, i32>> todo;  // configurations and positions, all places together that go on alike
    auto add = [&](i32 next, i32 at) {
      if (next == NONE) return;
      for (auto& each : todo)
        if (each.first == next) {
          each.second = positions_.both(each.second, at);
          return;
        }
      todo.push_back({next, at});
    };
    for (add(configuration, position); !todo.empty();) {
      auto [at, place] = todo.back();
      todo.pop_back();
      std::vector<Item> reading = stacks_.configurations[at].reading;
      for (Item item : reading) read_on(item, place, left, spelled, out, add);
    }
  }

  // The tokens that end in the top frame of a stack; add(configuration, position) of each place where one leaves it.
  template <class F>
  void read_on(Item item, i32 position, i32 left, bool spelled, Union& out, F&& add) {
    Observers& observers = stacks_.observers;
    const bool texts = observers.keeps_texts(item.env);
    if (texts && position >= positions_.singles()) {  // each node has a text of its own
      std::vector<i32> nodes;
      positions_.nodes(position, [&](i32 node) { nodes.push_back(node); });
      for (i32 node : nodes) read_on(item, node, left, spelled, out, add);
      return;
    }
    const i32 moving = observers.filters(item.env) ? observers.moving(item.env) : 0;
    i32 inside = moving ? NONE : observers.read(item.env, 0);  // in a token that has written a byte
    if (!moving && inside == NONE) return;
    Frame f = stacks_.frame(item.stack);
    const i32 table = stacks_.table_number(f.node, f.reg);
    const Table& t = stacks_.tables[table];
    const bool additive = left == FAR && !observed_.looks(item);
    const i64 below = additive ? observed_.bytes({f.below, 0}) : 0;
    const Lexed& found = lexer_.of(table, i32(Stacks::low(f.reg)), position, moving);
    out.read.push_back(found.number);
    if (texts) out.bits.resize(positions_.trie().words, 0);
    for (const Lexed::Group& group : found.groups) {
      u64 reg;
      const bool goes_on = stacks_.goes_on(f.node, f.reg, t, group.state, group.characters, reg);
      if (goes_on && texts) {
        each_text(group, stacks_.push(f.node, reg, f.below), item.env, position, left, spelled, out);
        continue;
      }
      if (goes_on && moving) inside = observers.with(item.env, group.env);
      const i64 rest = !goes_on ? ENDLESS
                       : additive ? observed_.bytes_of(f.node, reg, below)
                                  : this->rest({stacks_.push(f.node, reg, f.below), observers.token_end(inside)}, left, spelled);
      if (rest >= ENDLESS) {
        out.read.push_back(i32(&group - found.groups.data()));
        continue;
      }
      most_ = std::max(most_, rest);
      out.groups.push_back(&group);
    }
    out.read.push_back(NONE);
    for (const Lexed::Exit& exit : found.exits) {
      u64 reg;
      if (!stacks_.goes_on(f.node, f.reg, t, exit.state, exit.characters, reg)) continue;
      if (!texts) {
        if (moving) inside = observers.with(item.env, exit.env);
        add(left_for(f, reg, inside), exit.position);
        continue;
      }
      std::vector<i32> nodes;  // held apart, as positions may be made
      positions_.nodes(exit.position, [&](i32 node) { nodes.push_back(node); });
      for (i32 node : nodes)
        if (i32 env = after(item.env, position, node); env != NONE) add(left_for(f, reg, env), node);
    }
  }

  // The environment after the bytes from a node of the trie to one below.
  i32 after(i32 env, i32 from, i32 node) {
    std::string text;
    for (; node != from; node = positions_.trie().parent[node]) text += char(positions_.trie().byte[node]);
    for (size_t i = text.size(); i-- > 0 && env != NONE;) env = stacks_.observers.read(env, u8(text[i]));
    return env;
  }

  // Add the tokens of a group, in progress at a node, where items that must differ are open. A rest of the text that is found for one token
  // holds for all others but those that would make an open item equal to an item of that rest.
  void each_text(const Lexed::Group& group, i32 stack, i32 env, i32 node, i32 left, bool spelled, Union& out) {
    const Trie& trie = positions_.trie();
    Observers& observers = stacks_.observers;
    const bool json = observers.is_json(env);
    auto word = [&, depth = trie.places[trie.order[node]].depth](i32 token) { return trie.text[token].substr(depth); };
    bool whole = true;        // whether the tokens are those of the group
    std::vector<i32> tokens;  // otherwise; in ascending order
    for (bool tried = false;;) {
      i32 token = whole ? Lexed::last(group) : tokens.empty() ? NONE : tokens.back();
      if (token == NONE) return;
      i32 after = env;
      for (char c : word(token)) after = observers.read(after, u8(c));
      after = observers.token_end(after);
      const i64 rest = after == NONE ? ENDLESS : this->rest({stack, after}, left, spelled);
      auto list = [&] {
        if (std::exchange(whole, false)) Lexed::each(group, [&](i32 each) { tokens.push_back(each); });
      };
      if (rest >= ENDLESS) {
        if (!std::exchange(tried, true) && after != NONE && this->rest({stack, observers.without_open(after)}, left, spelled) >= ENDLESS) return;  // whatever the text
        list();
        tokens.pop_back();
        continue;
      }
      const Text way = observed_.witness({stack, after}, left, spelled);
      most_ = std::max(most_, rest);
      std::vector<i32> others;  // tokens for which this may not hold
      const std::vector<i32> open = observers.items(env).open;
      auto exclude = [&](size_t k, i32 text) {  // the token that makes this text of the k-th open item
        std::string read;
        for (; text != open[k] && text > 0; text = observers.before(text).first) read += char(observers.before(text).second);
        if (text != open[k]) return;
        std::reverse(read.begin(), read.end());
        if (i32 end = trie.find(read, node); end != NONE) others.insert(others.end(), trie.own.begin() + trie.own_begin[end], trie.own.begin() + trie.own_begin[end + 1]);
      };
      bool told = json ? whole && Lexed::is_large(group) && observed_.distinct.may_be_equal(env, node, way, others) : observed_.distinct.stay_apart(open, way);
      if (!told) {
        list();
        others = tokens;
      } else if (!json) {
        observed_.distinct.excluded(env, way, exclude);
        std::sort(others.begin(), others.end());
      }
      auto holds = [&](i32 each) {
        bool here = each != token && (whole ? Lexed::has(group, each) : std::binary_search(tokens.begin(), tokens.end(), each));
        return !here || (json && !observed_.distinct.are_equal(env, word(each), way));
      };
      others.erase(std::remove_if(others.begin(), others.end(), holds), others.end());
      std::vector<u32>& bits = out.bits;
      std::vector<i32> had;
      for (i32 each : others)
        if (bits[each >> 5] >> (each & 31) & 1) had.push_back(each);
      if (whole) Lexed::add(group, bits.data());
      for (i32 each : tokens) bits[each >> 5] |= 1u << (each & 31);
      for (i32 each : others) bits[each >> 5] &= ~(1u << (each & 31));
      for (i32 each : had) bits[each >> 5] |= 1u << (each & 31);
      tokens = std::move(others);
      whole = false;
    }
  }

  // The configuration after a frame that may end, or whose name has been read, without what it might read on itself.
  i32 left_for(const Frame& f, u64 reg, i32 env) {
    Index::Key key{u64(u32(f.node)), reg, u64(u32(f.below)) | u64(env) << 32};
    i32 known = rest_index_.find(key);
    if (known != NONE) return known - 1;
    std::vector<Item> items;
    if (stacks_.nodes[f.node].kind == BAG) {
      stacks_.calls(f.node, reg, [&](i32 node, u64 after) { items.push_back({stacks_.push(node, stacks_.first(node), stacks_.under(f.node, after, f.below)), env}); });
    } else if (stacks_.ends(f.node, reg) && f.below != NONE) {
      items.push_back({f.below, env});
    }
    i32 found = items.empty() ? NONE : stacks_.closed(items);
    rest_index_.put(key, found + 1);
    return found;
  }

  Stacks& stacks_;
  Positions& positions_;
  Lexer& lexer_;
  Crossing& crossing_;
  Stable<Known> known_;  // by configuration
  TokenSets sets_;
  Index near_index_, rest_index_;
  IndexOf<u64> after_index_;
  std::unordered_map<i32, std::vector<std::string>> written_;  // by configuration tokens that lead to the end, where no others were found
  Observed observed_;
  i64 most_ = 0;
};

}  // namespace tractile
