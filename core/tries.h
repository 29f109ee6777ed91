// Tries of texts in all their spellings.
#pragma once

#include "nfa.h"

namespace tractile::automata {

using Way = std::vector<std::vector<u8>>;  // an encoding of a character: the bytes allowed at each position

// How characters are written: all encodings of each; none if it cannot be.
class Letters {
 public:
  virtual ~Letters() = default;
  const std::vector<Way>& of(u32 character) {
    i32 known = index_.find(character);
    if (known == NONE) {
      std::vector<Way> found = make(character);
      if ((known = index_.find(character)) == NONE) {
        index_.put(character, known = i32(ways_.size()));
        ways_.push_back(std::move(found));
      }
    }
    return ways_[size_t(known)];
  }

 private:
  virtual std::vector<Way> make(u32 character) = 0;
  IndexOf<u64> index_;
  Stable<std::vector<Way>> ways_;
};

// The trie of some texts in all their spellings. Each node is before those that follow it; the spellings of a character meet in one node.
struct TextTrie {
  std::vector<std::vector<std::pair<u8, i32>>> children{1};
  std::vector<std::pair<i32, i32>> ends;  // a node and the text that ends there

  // Texts that cannot be written are left out.
  TextTrie(const std::vector<std::vector<u32>>& texts, Letters& letters) {
    IndexOf<u64> after;  // the node after a character, in any of its encodings
    std::vector<std::pair<i32, const std::vector<u8>*>> last;
    for (size_t text = 0; text < texts.size(); ++text) {
      const bool ascii = std::all_of(texts[text].begin(), texts[text].end(), [](u32 c) { return c < 128; });
      spend((ascii ? 1.0 : 20.0) * double(texts[text].size()));
      if (std::any_of(texts[text].begin(), texts[text].end(), [&](u32 c) { return letters.of(c).empty(); })) continue;
      i32 node = 0;
      for (u32 c : texts[text]) {
        const std::vector<Way>& ways = letters.of(c);
        if (ways.size() == 1 && ways[0].size() == 1) {
          node = step(node, ways[0][0]);
          continue;
        }
        const u64 key = u64(u32(node)) << 32 | c;
        i32 end = after.find(key);
        if (end == NONE) {
          last.clear();
          for (const Way& way : ways) {
            i32 here = node;
            for (size_t i = 0; i + 1 < way.size(); ++i) here = step(here, way[i]);
            last.push_back({here, &way.back()});
          }
          after.put(key, end = i32(children.size()));
          children.emplace_back();
          for (auto [here, choices] : last)
            for (u8 byte : *choices) put(here, byte, end);
        }
        node = end;
      }
      ends.push_back({node, i32(text)});
    }
  }

 private:
  i32 step(i32 node, const std::vector<u8>& choices) {
    for (auto [byte, to] : children[size_t(node)])
      if (byte == choices[0]) return to;
    const i32 fresh = i32(children.size());
    for (u8 byte : choices) put(node, byte, fresh);
    children.emplace_back();
    return fresh;
  }

  void put(i32 node, u8 byte, i32 to) {
    for (auto& child : children[size_t(node)])
      if (child.first == byte) {
        child.second = to;
        return;
      }
    children[size_t(node)].push_back({byte, to});
  }
};

// The minimal DFA of some texts in all their spellings.
inline Handle words(const std::vector<std::vector<u32>>& texts, Letters& letters) {
  TextTrie trie(texts, letters);
  spend(50);
  if (trie.ends.empty()) return empty();
  const size_t size = trie.children.size();
  std::vector<u8> is_end(size, 0);
  for (auto [node, text] : trie.ends) is_end[size_t(node)] = 1;
  Lists states;  // by what is read from here on
  std::vector<i32> place(size), key;
  std::vector<Move> row;
  auto made = std::make_shared<Nfa>();
  for (size_t node = size; node-- > 0;) {
    auto& onward = trie.children[node];
    std::sort(onward.begin(), onward.end());
    key.assign(1, is_end[node]);
    for (auto [byte, to] : onward) key.insert(key.end(), {byte, place[size_t(to)]});
    const size_t known = states.count();
    place[node] = states.number(key);
    if (states.count() == known) continue;
    row.clear();
    for (auto [byte, to] : onward) row.push_back({byte, byte, place[size_t(to)]});
    merge(row);
    made->add(row.data(), row.data() + row.size(), 0);
    made->end_row();
    if (is_end[node]) made->accept.push_back(place[node]);
  }
  made->start = {place[0]};
  made->trimmed = made->minimal = true;
  return made;
}

}  // namespace tractile::automata
