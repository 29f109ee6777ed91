// The work that constructions count, and where they stop: see `constraints/automata/work.py`.
#pragma once

#include "common.h"

namespace tractile {

// A construction would pass a limit. In Python: TooManyStates(limit=limit), with this text or its own.
struct TooManyStates : std::runtime_error {
  i64 limit;
  explicit TooManyStates(i64 most, const char* what = "") : std::runtime_error(what), limit(most) {}
};

constexpr i64 WORK = 1350000;    // `limits.WORK`
constexpr i64 STATES = 500000;   // `limits.STATES`
constexpr double SIMPLIFYING = WORK / 2.0;  // `work.SIMPLIFYING`
constexpr i64 TRANSITIONS = 10 * STATES;

// The work that a constraint may take is used up.
struct TooMuchWork : TooManyStates {
  TooMuchWork() : TooManyStates(WORK, "the constraint takes too much work: bound its lengths and repeats, or combine fewer alternatives") {}
};

// Units of work: those that may be taken, those taken, and those of no cached result.
struct Account {
  double limit, spent = 0, own = 0;
  explicit Account(double units) : limit(units) {}
};

inline thread_local Account* account = nullptr;  // the one in force
inline thread_local double unlooked = 0;         // the units since `look` was called
inline std::atomic<void (*)()> look{nullptr};    // throws where the limits of a request say so

// Count units of work. Throws TooMuchWork beyond the limit.
inline void spend(double units) {
  if ((unlooked += units) > OFTEN) {
    unlooked = 0;
    if (auto check = look.load()) check();
  }
  if (!account) return;
  account->own += units;
  account->spent += units;
  if (account->spent > account->limit) throw TooMuchWork();
}

// A construction that may fail: it takes at most `units`, or half of what is left if that is less. They count outside too.
class Attempt {
 public:
  explicit Attempt(double units) : outer_(account), inner_(outer_ ? std::min(units, (outer_->limit - outer_->spent) / 2) : units) { account = &inner_; }
  ~Attempt() {
    account = outer_;
    if (!outer_) return;
    double taken = std::min(inner_.spent, inner_.limit);
    outer_->own += taken;
    outer_->spent += taken;
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

 private:
  Account* outer_;
  Account inner_;
};

inline void check_limit(i64 states, i64 limit = STATES) {
  if (states > limit) throw TooManyStates(limit);
}

}  // namespace tractile
