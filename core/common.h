// What all files of the core use: short names of integers, hash tables of integers, the errors that leave the core.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "constants.h"

namespace tractile {

using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr i32 NONE = -1;
constexpr i32 FAR = 1 << 28;  // more tokens than any budget has

// A limit was passed: of states, of the depth of a stack, of the steps of one closure. In Python: TooManyStates.
struct LimitPassed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The steps that were allowed for a call are used up; the same call goes on where this one stopped.
struct Exhausted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline u64 mixed(u64 x) {  // the finaliser of splitmix64
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ x >> 31;
}

inline u64 mixed(u64 a, u64 b) { return mixed(a * 0x9E3779B97F4A7C15ull + b); }

// Three integers, as a key.
struct Three {
  u64 a, b, c;
  bool operator==(const Three& o) const { return a == o.a && b == o.b && c == o.c; }
};

inline u64 hashed(u64 key) { return mixed(key, 0); }
inline u64 hashed(const Three& key) { return mixed(key.a * 0x9E3779B97F4A7C15ull ^ key.b * 0xC2B2AE3D27D4EB4Full, key.c); }

// A hash table from keys to a number that is not negative, with open addressing; nothing is ever removed. A table that is full is moved
// to a larger one little by little: no call waits for all of it.
template <class K>
class IndexOf {
 public:
  using Key = K;

  i32 find(const Key& key) const {
    i32 found = now_.find(key);
    return found == NONE && before_.size ? before_.find(key) : found;
  }

  void put(const Key& key, i32 value) {  // the key must be new
    if (2 * (size_ + 1) > now_.size) {
      before_ = std::move(now_);
      now_ = Slots(before_.size ? 2 * before_.size : 8);
      moved_ = 0;
    }
    now_.put(key, value);
    ++size_;
    if (!before_.size) return;
    for (size_t end = std::min(before_.size, moved_ + MOVED); moved_ < end; ++moved_)
      if (const Slot& slot = before_.all[moved_]; slot.place) now_.put(slot.key, slot.place - 1);
    if (moved_ == before_.size) before_ = Slots();
  }

  size_t bytes() const { return (now_.size + before_.size) * sizeof(Slot); }

 private:
  struct Slot {
    Key key;
    i32 place;  // the value and 1; 0: free
  };
  struct Free {
    void operator()(Slot* slots) const { std::free(slots); }
  };
  struct Slots {
    size_t size = 0;
    std::unique_ptr<Slot[], Free> all;  // zeros, which take no memory until they are written to

    Slots() = default;
    explicit Slots(size_t n) : size(n), all(static_cast<Slot*>(std::calloc(n, sizeof(Slot)))) {
      if (!all) throw std::bad_alloc();
    }
    Slots(Slots&& o) noexcept : size(std::exchange(o.size, 0)), all(std::move(o.all)) {}
    Slots& operator=(Slots&& o) noexcept {
      size = std::exchange(o.size, 0);
      all = std::move(o.all);
      return *this;
    }

    i32 find(const Key& key) const {
      if (!size) return NONE;
      for (u64 at = hashed(key) & (size - 1);; at = (at + 1) & (size - 1)) {
        if (!all[at].place) return NONE;
        if (all[at].key == key) return all[at].place - 1;
      }
    }

    void put(const Key& key, i32 value) {
      u64 at = hashed(key) & (size - 1);
      while (all[at].place) at = (at + 1) & (size - 1);
      all[at] = {key, value + 1};
    }
  };

  Slots now_, before_;  // `before_`: being moved
  size_t size_ = 0, moved_ = 0;
};

using Index = IndexOf<Three>;

// A list that grows at its end, whose elements stay where they are.
template <class T>
class Stable {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t i) { return blocks_[i / EACH][i % EACH]; }
  const T& operator[](size_t i) const { return blocks_[i / EACH][i % EACH]; }
  const T& at(size_t i) const {
    if (i >= size_) throw std::out_of_range("there is no element " + std::to_string(i));
    return (*this)[i];
  }
  T& back() { return blocks_.back().back(); }

  void push_back(T value) { emplace_back(std::move(value)); }
  template <class... Given>
  T& emplace_back(Given&&... given) {
    if (size_ % EACH == 0) blocks_.emplace_back().reserve(EACH);
    blocks_.back().emplace_back(std::forward<Given>(given)...);
    ++size_;
    return blocks_.back().back();
  }

 private:
  std::vector<std::vector<T>> blocks_;
  size_t size_ = 0;
};

// Lists of integers, each kept once and numbered from 0.
class Lists {
 public:
  i32 number(const std::vector<i32>& list) {
    // four lanes, which a processor takes at once
    u64 lanes[4] = {list.size(), 1, 2, 3};
    for (size_t i = 0; i < list.size(); ++i) {
      u64& lane = lanes[i % 4];
      lane = (lane ^ u64(u32(list[i]))) * 0x9E3779B97F4A7C15ull;
      lane ^= lane >> 32;
    }
    const u64 a = mixed(lanes[0], lanes[1]), b = mixed(lanes[2], lanes[3]);
    // the hash has 128 bits; equal hashes of lists that differ are told apart by the third part of the key
    for (u64 turn = 0;; ++turn) {
      i32 known = index_.find({a, b, turn});
      if (known == NONE) {
        index_.put({a, b, turn}, i32(begin_.size() - 1));
        all_.insert(all_.end(), list.begin(), list.end());
        begin_.push_back(all_.size());
        return i32(begin_.size() - 2);
      }
      if (size(known) == list.size() && std::equal(list.begin(), list.end(), begin(known))) return known;
    }
  }

  const i32* begin(i32 number) const { return all_.data() + begin_[number]; }
  const i32* end(i32 number) const { return all_.data() + begin_[number + 1]; }
  size_t size(i32 number) const { return begin_[number + 1] - begin_[number]; }
  size_t count() const { return begin_.size() - 1; }
  size_t bytes() const { return 4 * all_.capacity() + 8 * begin_.capacity() + index_.bytes(); }

 private:
  std::vector<i32> all_;
  std::vector<size_t> begin_{0};
  Index index_;
};

}  // namespace tractile
