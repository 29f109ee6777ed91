// Reads the tokens that begin in a state of a table: the part of masks and of distances that no other frame of a stack changes, kept for
// all constraints that have the table.
#pragma once

#include <tuple>
#include <unordered_map>

#include "lexed.h"
#include "observers.h"

namespace tractile {

class Lexer {
 public:
  // `much`: MUCH, or less where the trie of a test is small.
  Lexer(const Stable<Table>& tables, Observers& observers, Positions& positions, i64 much)
      : tables_(tables), observers_(observers), positions_(positions), much_(much) {
    const Trie& trie = positions.trie();
    for (i32 child = trie.first[0]; child < trie.first[1]; ++child) beginning_[trie.byte[child] + 1] = trie.places[trie.order[child]].after - trie.order[child];
    for (int byte = 0; byte < 256; ++byte) beginning_[byte + 1] += beginning_[byte];
  }

  // The tokens and exits read from a state, from a position in the trie. `env`: WITHIN tables around it that read along (`observers.h`).
  const Lexed& of(i32 table, i32 state, i32 position, i32 env = 0) {
    Index::Key key{u64(u32(table)), u64(u32(state)) | u64(u32(env)) << 32, u64(u32(position))};
    i32 known = index_.find(key);
    if (known != NONE) return *all_[known];
    const Table& t = tables_[table];
    if (position != Positions::ROOT && positions_.has_root(position)) {  // many positions have the root, from which most is read
      const i32 others = positions_.without(position, Positions::ROOT);
      return keep(key, together(of(table, state, Positions::ROOT, env), of(table, state, others, env)));
    }
    if (env) {
      Lexed found;
      Making making;
      sweep_all(t, {position, state, 0}, env, making);
      finish(making, found);
      return keep(key, std::move(found));
    }
    bool shared = t.base != NONE && tables_[t.base].base == NONE && t.in_base[state] != NONE && t.deterministic;
    i32 model = shared || position != Positions::ROOT || !t.deterministic ? NONE : default_target(t, state);
    return keep(key, shared          ? by_layers(table, state, position)
                     : model != NONE ? by_base(table, state, position, table, model)
                                     : by_form(table, state, position));
  }

  size_t bytes() const { return bytes_ + index_.bytes() + row_index_.bytes() + 4 * (row_env_.capacity() + rows_.capacity()); }
  u64 visited = 0;  // positions

 private:
  const Lexed& keep(const Index::Key& key, Lexed&& found) {
    all_.push_back(std::make_unique<Lexed>(std::move(found)));
    bytes_ += all_.back()->bytes();
    all_.back()->number = i32(all_.size()) - 1;
    index_.put(key, all_.back()->number);
    return *all_.back();
  }

  struct At {
    i32 position, state, characters;
  };
  struct Alike {  // what the states of one form read
    i32 table;                      // of the state that was read first
    std::vector<i32> order, place;  // the states of that table as they were met, and by state its place there
    Lexed read;                     // states by their places, here and below
    std::vector<At> others;         // where bytes come that lead away, each with the state before it
  };

  // Groups and exits in the making.
  struct Making {
    Index group_of, exit_of;
    std::vector<Lexed::Group> groups;
    std::vector<std::vector<i32>> tokens;  // by group
    std::vector<Lexed::Exit> exits;
    std::vector<std::vector<i32>> ends;  // by exit its nodes

    std::vector<i32>& group(i32 state, i32 characters, i32 env = 0) {
      Near& near = near_[(u32(state) * 31 + u32(characters) + u32(env) * 7) % 64];
      if (near.at != NONE && near.state == state && near.characters == characters && near.env == env) return tokens[near.at];
      Index::Key key{u64(u32(state)), u64(u32(characters)), u64(u32(env))};
      i32 at = group_of.find(key);
      if (at == NONE) {
        group_of.put(key, at = i32(groups.size()));
        groups.push_back({state, characters, nullptr, nullptr, env});
        tokens.emplace_back();
      }
      near = {state, characters, env, at};
      return tokens[at];
    }

    struct Near {  // a group that was asked for lately
      i32 state = 0, characters = 0, env = 0, at = NONE;
    };
    Near near_[64];

    std::vector<i32>& exit(i32 state, i32 characters, i32 env = 0) {
      Index::Key key{u64(u32(state)), u64(u32(characters)), u64(u32(env))};
      i32 at = exit_of.find(key);
      if (at == NONE) {
        exit_of.put(key, at = i32(exits.size()));
        exits.push_back({state, characters, NONE, env});
        ends.emplace_back();
      }
      return ends[at];
    }
  };

  void finish(Making& making, Lexed& found) {
    for (size_t i = 0; i < making.groups.size(); ++i) {
      making.groups[i].tokens = std::make_shared<const TokenSet>(making.tokens[i], positions_.trie().words);
      found.groups.push_back(making.groups[i]);
    }
    for (size_t i = 0; i < making.exits.size(); ++i) {
      making.exits[i].position = positions_.of(making.ends[i]);
      found.exits.push_back(making.exits[i]);
    }
  }

  // What is read from two positions.
  static Lexed together(Lexed found, const Lexed& others) {
    found.groups.insert(found.groups.end(), others.groups.begin(), others.groups.end());
    found.exits.insert(found.exits.end(), others.exits.begin(), others.exits.end());
    return found;
  }

  // Layers apart, as a token may be read from two nodes of which one is below the other, from one of them otherwise than by the base.
  Lexed by_layers(i32 table, i32 state, i32 position) {
    std::vector<i32> layers = positions_.layered(position);
    if (layers.size() == 1) return by_base(table, state, position, tables_[table].base, tables_[table].in_base[state]);
    Lexed found;
    for (i32 layer : layers) found = together(std::move(found), of(table, state, layer));
    return found;
  }

  // What a state reads as another does, of its table or of the table's base, but for some texts: the answer of the other, corrected along
  // those.
  Lexed by_base(i32 number, i32 state, i32 position, i32 other_number, i32 other_state) {
    const Table &table = tables_[number], &other = tables_[other_number];
    const Lexed& base = of(other_number, other_state, position);
    const bool own = number == other_number;
    Making making;
    Lost lost;
    At here{NONE, state, 0}, there{NONE, other_state, 0};
    if (own || table.apart[state]) positions_.nodes(position, [&](i32 node) { compare(table, here, other, there, node, making, lost); });
    std::sort(lost.exits.begin(), lost.exits.end());
    Lexed found;
    std::unordered_map<const TokenSet*, Lexed::Tokens> gone;  // by what was gone before
    for (Lexed::Group group : base.groups) {
      if (!own) group.state = table.from_base[group.state];
      if (group.state == NONE) continue;
      if (!lost.tokens.empty()) {
        Lexed::Tokens& marks = gone[group.gone.get()];
        if (!marks) {
          std::vector<i32> all = lost.tokens;
          if (group.gone) group.gone->each([&](i32 token) { all.push_back(token); });
          marks = std::make_shared<const TokenSet>(all, positions_.trie().words);
        }
        group.gone = marks;
      }
      if (!group.gone || Lexed::last(group) != NONE) found.groups.push_back(std::move(group));
    }
    for (const Lexed::Exit& exit : base.exits) {
      i32 same = own ? exit.state : table.from_base[exit.state], kept = exit.position;
      if (same == NONE) continue;
      if (!lost.exits.empty()) {
        std::vector<i32> nodes;
        positions_.nodes(exit.position, [&](i32 n) {
          if (!std::binary_search(lost.exits.begin(), lost.exits.end(), std::make_tuple(exit.state, exit.characters, n))) nodes.push_back(n);
        });
        kept = positions_.of(nodes);
      }
      if (kept != NONE) found.exits.push_back({same, exit.characters, kept, 0});
    }
    finish(making, found);
    return found;
  }

  // What a state does not read as another does below a node of the trie: tokens, and exits as state, characters, node.
  struct Lost {
    std::vector<i32> tokens;
    std::vector<std::tuple<i32, i32, i32>> exits;
  };

  // Sweep two states together below a node of the trie, but for where they read alike: what is read from the first, and what is lost of
  // the other's.
  void compare(const Table& table, At here, const Table& other, At there, i32 node, Making& making, Lost& lost) {
    const bool own = &table == &other;
    const Trie& trie = positions_.trie();
    const Trie::Place* places = trie.places.data();
    i32 place = trie.order[node];
    const i32 end = places[place].after;
    std::vector<std::pair<At, At>> way(trie.deepest + 1);  // by depth
    way[places[place].depth] = {here, there};
    for (++place; place < end; ++visited) {
      const Trie::Place& at = places[place];
      std::tie(here, there) = way[at.depth - 1];
      auto read = [&](const Table& t, At& from) {
        if (from.state != NONE) from.state = t.step(from.state, at.byte);
        if (from.state != NONE) from.characters += t.between[from.state];
      };
      read(table, here);
      read(other, there);
      bool same = own ? here.state == there.state : here.state != NONE && table.in_base[here.state] == there.state && !table.apart[here.state];
      if ((same && here.characters == there.characters) || (here.state == NONE && there.state == NONE)) {
        place = at.after;
        continue;
      }
      way[at.depth] = {here, there};
      auto first = trie.in_order.begin() + at.own, last = trie.in_order.begin() + places[place + 1].own;
      bool inside = at.after > place + 1, reads = false;
      if (there.state != NONE) {
        lost.tokens.insert(lost.tokens.end(), first, last);
        if (inside && other.label[there.state] >= 0) lost.exits.push_back({there.state, there.characters, at.node});
        reads = other.reads(there.state);
      }
      if (here.state != NONE) {
        if (first != last) {
          auto& group = making.group(here.state, here.characters);
          group.insert(group.end(), first, last);
        }
        if (inside && table.label[here.state] >= 0) making.exit(here.state, here.characters).push_back(at.node);
        reads = reads || table.reads(here.state);
      }
      place = reads ? place + 1 : at.after;
    }
  }

  // The state to which most of what is read from a state leads, if it reads most of that likewise and leads to itself; otherwise NONE.
  // States in the middle of a word that is sought anywhere in a text lead back to where nothing of it is read.
  i32 default_target(const Table& table, i32 state) const {
    i32 next = next_by_most(table, state);
    if (next == NONE || next == state || next_by_most(table, next) != next) return NONE;
    i64 alike = 0, apart = 0;
    for (int byte = 0; byte < 256; ++byte) {
      i32 here = table.step(state, u8(byte)), there = table.step(next, u8(byte));
      (here == there ? alike : apart) += here == NONE && there == NONE ? 0 : beginning_[byte + 1] - beginning_[byte];
    }
    return alike >= much_ && 4 * apart <= alike ? next : NONE;
  }

  // The state after the bytes with which most tokens begin, of those that a state reads; NONE if they are few.
  i32 next_by_most(const Table& table, i32 state) const {
    std::vector<std::pair<i32, i64>> targets;
    for (size_t i = table.begin[state]; i < table.begin[state + 1]; ++i) {
      const Table::Move& move = table.moves[i];
      i64 nodes = beginning_[move.high + 1] - beginning_[move.low];
      auto at = std::find_if(targets.begin(), targets.end(), [&](auto& each) { return each.first == move.to; });
      if (at == targets.end()) targets.push_back({move.to, nodes});
      else at->second += nodes;
    }
    auto most = std::max_element(targets.begin(), targets.end(), [](auto& a, auto& b) { return a.second < b.second; });
    return most == targets.end() || most->second < much_ ? NONE : most->first;
  }

  // The nodes of the trie whose first bytes a state reads.
  i64 begins(const Table& table, i32 state) const {
    i64 found = 0;
    for (size_t i = table.begin[state]; i < table.begin[state + 1]; ++i) found += beginning_[table.moves[i].high + 1] - beginning_[table.moves[i].low];
    return found;
  }

  // Where a state reads much, most of it is the same in many tables, and for many states of one: texts of a string or a comment up to the
  // byte that may end it, words of which some more may come. That part is kept by its form, with the nodes where other bytes come; what is
  // read from those on is the table's own.
  Lexed by_form(i32 number, i32 state, i32 position) {
    const Table& table = tables_[number];
    if (position != Positions::ROOT || !table.deterministic || begins(table, state) < much_) return walked(table, state, position);
    const i32 form = forms_.number(this->form(table, state));
    alike_.resize(forms_.count());
    std::vector<Alike>& known = alike_[form];
    std::vector<i32> order;
    auto shared = std::find_if(known.rbegin(), known.rend(), [&](const Alike& each) { return is_alike(each, table, state, order); });
    if (shared == known.rend()) {
      known.push_back({number, {state}, std::vector<i32>(table.states, NONE), {}, {}});
      Alike& fresh = known.back();
      fresh.place[state] = 0;
      Making making;
      sweep(table, {position, state, 0}, position, making, &fresh);
      finish(making, fresh.read);
      for (Lexed::Group& group : fresh.read.groups) group.state = fresh.place[group.state];
      for (Lexed::Exit& exit : fresh.read.exits) exit.state = fresh.place[exit.state];
      for (At& other : fresh.others) other.state = fresh.place[other.state];
      bytes_ += fresh.read.bytes() + sizeof(At) * fresh.others.capacity() + 4 * (fresh.place.size() + fresh.order.capacity());
      order = fresh.order;
      shared = known.rbegin();
    }
    Lexed found = shared->read;
    for (Lexed::Group& group : found.groups) group.state = order[group.state];
    for (Lexed::Exit& exit : found.exits) exit.state = order[exit.state];
    Making making;
    for (const At& other : shared->others) {
      const i32 to = table.step(order[other.state], positions_.trie().byte[other.position]);
      if (to == NONE) continue;
      const At next{other.position, to, other.characters + table.between[to]};
      come(table, next, 0, making);
      if (table.reads(to)) sweep(table, next, next.position, making);
    }
    finish(making, found);
    return found;
  }

  // What tells most forms apart: the rare bytes that lead away from a state, which are left in `away_`, and the other moves of the state.
  std::vector<i32> form(const Table& table, i32 state) {
    away_ = ByteSet();
    std::vector<i32> found, next{state};
    for (int byte = 0; byte < 128; ++byte)
      if (positions_.trie().below[byte] < much_ && table.step(state, u8(byte)) != state) away_.put(byte, byte), found.push_back(byte);
    for (size_t i = table.begin[state]; i < table.begin[state + 1]; ++i) {
      const Table::Move& move = table.moves[i];
      if (away_.has(move.low) && move.low == move.high) continue;
      auto known = std::find(next.begin(), next.end(), move.to);
      found.insert(found.end(), {move.low | move.high << 8, i32(known - next.begin()), (table.label[move.to] >= 0) | table.between[move.to] << 1});
      if (known == next.end()) next.push_back(move.to);
    }
    return found;
  }

  // Whether a state reads as the first of a form, but for the bytes that lead away; then `order` has its states in place of those.
  bool is_alike(const Alike& known, const Table& table, i32 state, std::vector<i32>& order) const {
    const Table& model = tables_[known.table];
    std::vector<u8> bytes;  // one of those that both tables take alike, and so on
    for (int byte = 0; byte < 256; ++byte)
      if (!away_.has(u8(byte)) && (bytes.empty() || model.of_byte[byte] != model.of_byte[bytes.back()] || table.of_byte[byte] != table.of_byte[bytes.back()])) bytes.push_back(u8(byte));
    order.assign(known.order.size(), NONE);
    order[0] = state;
    for (size_t at = 0; at < order.size(); ++at)  // each is met from one before it
      for (u8 byte : bytes) {
        const i32 there = model.step(known.order[at], byte), here = table.step(order[at], byte);
        if (there == NONE && here != NONE) return false;
        if (there == NONE || known.place[there] == NONE) continue;  // no token leads there
        if (here == NONE || (model.label[there] >= 0) != (table.label[here] >= 0) || model.between[there] != table.between[here]) return false;
        i32& same = order[known.place[there]];
        if (same == NONE) same = here;
        if (same != here) return false;
      }
    return true;
  }

  Lexed walked(const Table& table, i32 state, i32 position) {
    Lexed found;
    Making making;
    std::vector<At> todo{{position, state, 0}};
    while (!todo.empty()) {
      const At at = todo.back();
      todo.pop_back();
      if (table.deterministic && positions_.size(at.position) < MANY_NODES) positions_.nodes(at.position, [&](i32 node) { sweep(table, at, node, making); });
      else if (table.deterministic && reads_few(table, at.state)) step_all(table, at, todo, making);
      else sweep_all(table, at, 0, making);
    }
    finish(making, found);
    return found;
  }

  // Whether a state reads few bytes.
  static bool reads_few(const Table& table, i32 state) {
    i32 bytes = 0;
    for (size_t i = table.begin[state]; i < table.begin[state + 1]; ++i) bytes += table.moves[i].high - table.moves[i].low + 1;
    return bytes <= FEW_BYTES;
  }

  // Read one more byte from all nodes of a position together: each place reached is put into `todo`.
  void step_all(const Table& table, const At& at, std::vector<At>& todo, Making& making) {
    const Trie& trie = positions_.trie();
    for (size_t i = table.begin[at.state]; i < table.begin[at.state + 1]; ++i) {
      const Table::Move move = table.moves[i];
      for (int byte = move.low; byte <= move.high; ++byte) {
        const i32 child = positions_.child(at.position, u8(byte)), characters = at.characters + table.between[move.to];
        if (child == NONE) continue;
        ++visited;
        positions_.tokens(child, [&](i32 token) { making.group(move.to, characters).push_back(token); });
        if (table.label[move.to] >= 0)
          positions_.nodes(child, [&](i32 node) {
            if (trie.first[node] < trie.first[node + 1]) making.exit(move.to, characters).push_back(node);
          });
        if (table.reads(move.to)) todo.push_back({child, move.to, characters});
      }
    }
  }

  // A place inside a token: the tokens that end there, and where the text may.
  void come(const Table& table, const At& at, i32 env, Making& making) {
    const Trie& trie = positions_.trie();
    const i32 place = trie.order[at.position], own = trie.places[place].own, ends = trie.places[place + 1].own;
    if (own < ends) {
      std::vector<i32>& group = making.group(at.state, at.characters, env);
      group.insert(group.end(), trie.in_order.begin() + own, trie.in_order.begin() + ends);
    }
    if (table.label[at.state] >= 0 && trie.places[place].after > place + 1) making.exit(at.state, at.characters, env).push_back(at.position);
  }

  // Read all that is below a node of the trie, depth first, and note tokens and exits in `making`. With `fresh` the states that are met are
  // numbered there, and the bytes of `away_` are not read: the nodes to which they lead are appended there, each with the state before it.
  void sweep(const Table& table, const At& from, i32 node, Making& making, Alike* fresh = nullptr) {
    const Trie& trie = positions_.trie();
    const Trie::Place* places = trie.places.data();
    i32 place = trie.order[node];
    const i32 end = places[place].after;
    way_.resize(trie.deepest + 1);
    way_[places[place].depth] = {from.state, from.characters};
    for (++place; place < end; ++visited) {
      const Trie::Place& at = places[place];
      auto [state, characters] = way_[at.depth - 1];
      if (fresh && away_.has(at.byte)) {
        fresh->others.push_back({at.node, state, characters});
        place = at.after;
        continue;
      }
      i32 to = table.step(state, at.byte);
      if (to == NONE) {
        place = at.after;
        continue;
      }
      if (fresh && fresh->place[to] == NONE) {
        fresh->place[to] = i32(fresh->order.size());
        fresh->order.push_back(to);
      }
      characters += table.between[to];
      way_[at.depth] = {to, characters};
      i32 own = at.own, ends = places[place + 1].own;
      if (own < ends) {
        std::vector<i32>& group = making.group(to, characters);
        for (; own < ends; ++own) group.push_back(trie.in_order[own]);
      }
      if (table.label[to] >= 0 && at.after > place + 1) making.exit(to, characters).push_back(at.node);
      place = table.reads(to) ? place + 1 : at.after;
    }
  }

  // What a table and those of an environment read together, from the nodes of a position on: all below them, each node once, as texts that
  // began at different nodes often go on alike.
  void sweep_all(const Table& table, const At& from, i32 env, Making& making) {
    struct Here {
      i32 state, characters, row;
      bool operator==(const Here& o) const { return state == o.state && characters == o.characters && row == o.row; }
    };
    const Trie& trie = positions_.trie();
    const Trie::Place* places = trie.places.data();
    const std::vector<i32> starts = positions_.places(from.position);
    std::vector<std::vector<Here>> way(trie.deepest + 1);  // by depth
    i32 end = 0;  // the first place that is not below a start
    auto start = starts.begin();
    for (i32 place = 0; place < end || start != starts.end(); ++visited) {
      if (place >= end) {
        place = *start;
        end = places[place].after;
        if (places[place].depth) way[places[place].depth - 1].clear();
      }
      const Trie::Place& at = places[place];
      auto& now = way[at.depth];
      now.clear();
      bool reads = false;
      auto is_new = [&](const Here& here) {
        if (std::find(now.begin(), now.end(), here) != now.end()) return false;
        now.push_back(here);
        reads = reads || table.reads(here.state);
        return true;
      };
      for (size_t i = 0; at.depth && i < way[at.depth - 1].size(); ++i) {
        const Here before = way[at.depth - 1][i];
        const i32 row = env ? moved(before.row, at.byte) : NONE;
        if (env && row == NONE) continue;
        table.each(before.state, at.byte, [&](i32 to) {
          const Here here{to, before.characters + table.between[to], row};
          if (is_new(here)) come(table, {at.node, to, here.characters}, env ? row_env_[row] : 0, making);
        });
      }
      if (start != starts.end() && *start == place) is_new({from.state, from.characters, env ? row_of(env) : NONE}), ++start;
      place = reads ? place + 1 : at.after;
      if (reads || start == starts.end() || *start >= at.after) continue;
      place = *start;  // others begin below it
      for (u32 depth = at.depth; depth < places[place].depth; ++depth) way[depth].clear();
    }
  }

  // The row of an environment in the matrix of moves, environments × 256 bytes.
  i32 row_of(i32 env) {
    i32 known = row_index_.find(u64(env));
    if (known != NONE) return known;
    row_index_.put(u64(env), known = i32(row_env_.size()));
    row_env_.push_back(env);
    rows_.resize(rows_.size() + 256, UNKNOWN);
    return known;
  }

  i32 moved(i32 row, u8 byte) {
    i32 found = rows_[size_t(row) * 256 + byte];
    if (found != UNKNOWN) return found;
    const i32 after = observers_.read(row_env_[row], byte);
    found = after == NONE ? NONE : row_of(after);
    return rows_[size_t(row) * 256 + byte] = found;
  }

  static constexpr i32 UNKNOWN = -2;
  const Stable<Table>& tables_;
  Observers& observers_;
  Positions& positions_;
  i64 much_;
  IndexOf<u64> row_index_;  // by environment
  std::vector<i32> row_env_, rows_;
  Index index_;
  std::vector<std::unique_ptr<Lexed>> all_;
  Lists forms_;
  std::vector<std::vector<Alike>> alike_;  // by form
  ByteSet away_;  // of the form that was made last: the rare bytes that lead away from its state
  i64 beginning_[257] = {0};  // the nodes of the trie that are reached by lesser first bytes
  std::vector<std::pair<i32, i32>> way_;  // of a sweep: by depth the state and the characters
  size_t bytes_ = 0;
};

}  // namespace tractile
