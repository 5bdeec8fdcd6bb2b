// The recurrence of every cell, forward and backward, on a CPU: h_t = decay_t * h_{t-1} + drive_t, or
// for a ladder the same between two ends.
//
// A cell is two small functions on vectors of eight units: `gate` (projections to decay and drive)
// and `gradient` (its transpose). Everything else is written once:
//
//   forward   fetch projections -> gate -> mask -> unroll
//   backward  the same again from a stored state -> unroll backwards -> gradient -> scatter
//
// Time goes in chunks that fit in the cache; the state before each chunk is a checkpoint, all that
// the backward pass needs. A strip is up to 32 lanes side by side: units of one sequence, or all
// units of several sequences where there are few. Where a part of the batch has many more sequences
// than there are distinct values, gates and their gradients are computed once per value and
// position (`Table`) instead of once per sequence and position.
//
// How work is divided depends on shapes alone, and partial sums are added in a fixed order: the
// number of threads does not change a bit of any result.

#pragma once

#include "vectors.h"

namespace persistor {

constexpr int64_t kVectors = 4;                // vectors of a strip, at most
constexpr int64_t kLanes = kWidth * kVectors;  // lanes of a strip, at most
constexpr int64_t kParts = 8;                  // parts of a batch, about

// Calls f with the number of vectors of a strip as a constant.
template <class F>
PERSISTOR_INLINE void with_vectors(int64_t vectors, F&& f) {
  switch (vectors) {
    case 1: return f(std::integral_constant<int, 1>());
    case 2: return f(std::integral_constant<int, 2>());
    case 3: return f(std::integral_constant<int, 3>());
    default: return f(std::integral_constant<int, 4>());
  }
}

// The derivative used in place of Heaviside's: 1 / (1 + (pi x)^2).
PERSISTOR_INLINE V surrogate_slope(V x) {
  const V y = x * 3.14159265358979f;
  return 1.0f / (1.0f + y * y);
}

// ---------------------------------------------------------------------------------------------
// Transitions: one step of the state, from a[] (decay) and d[] (drive), one entry a part of the
// state (two for complex states), and the cell's parameters q[]. Backwards: from the derivative g
// with respect to the state after it, those with respect to decay and drive, and (in g) to the
// state h before it.

// h -> a * h + d
template <int S>
struct Affine {
  static constexpr int parts = S;

  static PERSISTOR_INLINE void advance(const V*, const V* a, const V* d, V* h) {
    if constexpr (S == 1) {
      h[0] = a[0] * h[0] + d[0];
    } else {
      const V real = a[0] * h[0] - a[1] * h[1] + d[0];
      h[1] = a[0] * h[1] + a[1] * h[0] + d[1];
      h[0] = real;
    }
  }
  static PERSISTOR_INLINE void retreat(const V* a, const V* h, V* g, V* da, V* dd) {
    for (int part = 0; part < S; ++part) dd[part] = g[part];
    if constexpr (S == 1) {
      da[0] = g[0] * h[0];
      g[0] *= a[0];
    } else {
      da[0] = g[0] * h[0] + g[1] * h[1];
      da[1] = g[1] * h[0] - g[0] * h[1];
      g[0] = dd[0] * a[0] + dd[1] * a[1];
      g[1] = dd[1] * a[0] - dd[0] * a[1];
    }
  }
};

// h -> clip(a * h + d, 0, top) where d is not 0, else a * h. Backwards as if nothing were clipped; a
// is a constant: 1, or 0 for a reset.
template <int Top>  // which of the parameters is the top: a constant too
struct Saturating : Affine<1> {
  static PERSISTOR_INLINE void advance(const V* q, const V* a, const V* d, V* h) {
    const V x = a[0] * h[0] + d[0];
    const V not_above = choose(x > q[Top], q[Top], x);
    h[0] = choose(d[0] != all(0), choose(x < all(0), all(0), not_above), x);
  }
};

// ---------------------------------------------------------------------------------------------
// Cells: projections p[] and parameters q[] to the transition a[] and d[]. `gradient` sets dp[] and
// adds to dq[]. What is costly in both is computed by `costly` and handed to them, so that it can be
// kept.

// The part that all cells with a threshold share; BMRU is CMRU with epsilon = 0.
struct Hysteresis {
  V candidate, threshold, margin;
  Mask updates;

  PERSISTOR_INLINE Hysteresis(V candidate, V threshold)
      : candidate(candidate), threshold(threshold),
        margin(absolute(candidate) - absolute(threshold)), updates(margin >= all(0)) {}

  PERSISTOR_INLINE V decay(V epsilon) const { return choose(updates, epsilon, all(1)); }
  PERSISTOR_INLINE V if_updates(V x) const { return (V)(updates & (Mask)x); }
  PERSISTOR_INLINE V times_sign(V x) const { return choose(candidate >= all(0), x, -x); }

  // From the derivatives with respect to decay and drive = z * S(candidate) * scale.
  PERSISTOR_INLINE void gradient(V scale, V epsilon, V da, V dd, V* dp) const {
    const V dz = da * (epsilon - 1.0f) + times_sign(dd * scale);
    const V dmargin = dz * surrogate_slope(margin);
    const V dsign = if_updates(dd * scale);
    dp[0] = along(dmargin, candidate) + dsign * 2.0f * surrogate_slope(candidate);
    dp[1] = -along(dmargin, threshold);
  }
};

struct Cmru : Affine<1> {
  static constexpr int projections = 2, parameters = 2;  // q: scale, epsilon
  static constexpr bool keeps = false;

  static PERSISTOR_INLINE V costly(const V*) { return V{}; }
  static PERSISTOR_INLINE void gate(const V* p, const V* q, V, V* a, V* d) {
    const Hysteresis unit(p[0], p[1]);
    a[0] = unit.decay(q[1]);
    d[0] = unit.if_updates(unit.times_sign(q[0]));
  }
  static PERSISTOR_INLINE void gradient(
      const V* p, const V* q, V, const V* da, const V* dd, V* dp, V* dq) {
    const Hysteresis unit(p[0], p[1]);
    unit.gradient(q[0], q[1], da[0], dd[0], dp);
    dq[0] += unit.if_updates(unit.times_sign(dd[0]));
    dq[1] += unit.if_updates(da[0]);
  }
};

struct AlphaCmru : Affine<1> {
  static constexpr int projections = 3, parameters = 1;  // q: epsilon
  static constexpr bool keeps = false;

  static PERSISTOR_INLINE V costly(const V*) { return V{}; }
  static PERSISTOR_INLINE void gate(const V* p, const V* q, V, V* a, V* d) {
    const Hysteresis unit(p[0], p[1]);
    a[0] = unit.decay(q[0]);
    d[0] = unit.if_updates(unit.times_sign(p[2]));
  }
  static PERSISTOR_INLINE void gradient(
      const V* p, const V* q, V, const V* da, const V* dd, V* dp, V* dq) {
    const Hysteresis unit(p[0], p[1]);
    unit.gradient(p[2], q[0], da[0], dd[0], dp);
    dp[2] = unit.if_updates(unit.times_sign(dd[0]));
    dq[0] += unit.if_updates(da[0]);
  }
};

// A CMRU of half the scale, whose updates also add (1 - epsilon) * scale / 2.
struct PositiveCmru : Affine<1> {
  static constexpr int projections = 1, parameters = 3;  // q: threshold, scale, epsilon
  static constexpr bool keeps = false;

  static PERSISTOR_INLINE V costly(const V*) { return V{}; }
  static PERSISTOR_INLINE void gate(const V* p, const V* q, V, V* a, V* d) {
    const Hysteresis unit(p[0], q[0]);
    a[0] = unit.decay(q[2]);
    d[0] = unit.if_updates(target(unit, q) * q[1]);
  }
  static PERSISTOR_INLINE void gradient(
      const V* p, const V* q, V, const V* da, const V* dd, V* dp, V* dq) {
    const Hysteresis unit(p[0], q[0]);
    const V half = q[1] * 0.5f, dkept = da[0] - dd[0] * half;
    V both[2];  // with respect to candidate and threshold
    unit.gradient(half, q[2], dkept, dd[0], both);
    dp[0] = both[0];
    dq[0] += both[1];
    dq[1] += unit.if_updates(dd[0] * target(unit, q));
    dq[2] += unit.if_updates(dkept);
  }

 private:
  static PERSISTOR_INLINE V target(const Hysteresis& unit, const V* q) {
    return (unit.times_sign(all(1)) + 1.0f - q[2]) * 0.5f;
  }
};

struct Ladder : Saturating<1> {
  static constexpr int projections = 1, parameters = 2;  // q: threshold, levels
  static constexpr bool keeps = false;

  static PERSISTOR_INLINE V costly(const V*) { return V{}; }
  static PERSISTOR_INLINE void gate(const V* p, const V* q, V, V* a, V* d) {
    const Hysteresis unit(p[0], q[0]);
    a[0] = all(1);
    d[0] = unit.if_updates(unit.times_sign(all(1)));
  }
  static PERSISTOR_INLINE void gradient(
      const V* p, const V* q, V, const V*, const V* dd, V* dp, V* dq) {
    const Hysteresis unit(p[0], q[0]);
    V both[2];  // with respect to candidate and threshold
    unit.gradient(all(1), all(1), all(0), dd[0], both);
    dp[0] = both[0];
    dq[0] += both[1];
  }
};

struct MinGru : Affine<1> {
  static constexpr int projections = 2, parameters = 0;
  static constexpr bool keeps = true;

  static PERSISTOR_INLINE V costly(const V* p) { return sigmoid(p[0]); }
  static PERSISTOR_INLINE void gate(const V* p, const V*, V z, V* a, V* d) {
    a[0] = 1.0f - z;
    d[0] = z * p[1];
  }
  static PERSISTOR_INLINE void gradient(
      const V* p, const V*, V z, const V* da, const V* dd, V* dp, V*) {
    dp[0] = (dd[0] * p[1] - da[0]) * z * (1.0f - z);
    dp[1] = dd[0] * z;
  }
};

struct Lru : Affine<2> {
  // q: real and imaginary part of the eigenvalue, gamma
  static constexpr int projections = 2, parameters = 3;
  static constexpr bool keeps = false;

  static PERSISTOR_INLINE V costly(const V*) { return V{}; }
  static PERSISTOR_INLINE void gate(const V* p, const V* q, V, V* a, V* d) {
    a[0] = q[0];
    a[1] = q[1];
    d[0] = q[2] * p[0];
    d[1] = q[2] * p[1];
  }
  static PERSISTOR_INLINE void gradient(
      const V* p, const V* q, V, const V* da, const V* dd, V* dp, V* dq) {
    dp[0] = q[2] * dd[0];
    dp[1] = q[2] * dd[1];
    dq[0] += da[0];
    dq[1] += da[1];
    dq[2] += dd[0] * p[0] + dd[1] * p[1];
  }
};

// Eight states in memory, real and imaginary parts by turns if S is 2; `sign` multiplies the latter.
template <int S>
PERSISTOR_INLINE void get_state(const float* from, V* h, float sign) {
  if constexpr (S == 1) {
    h[0] = get<V>(from);
  } else {
    const V one = get<V>(from), two = get<V>(from + kWidth);
    h[0] = __builtin_shufflevector(one, two, 0, 2, 4, 6, 8, 10, 12, 14);
    h[1] = sign * __builtin_shufflevector(one, two, 1, 3, 5, 7, 9, 11, 13, 15);
  }
}
template <int S>
PERSISTOR_INLINE void put_state(float* to, const V* h, float sign) {
  if constexpr (S == 1) {
    put(to, h[0]);
  } else {
    const V one = h[0], two = sign * h[1];
    put(to, __builtin_shufflevector(one, two, 0, 8, 1, 9, 2, 10, 3, 11));
    put(to + kWidth, __builtin_shufflevector(one, two, 4, 12, 5, 13, 6, 14, 7, 15));
  }
}

// ---------------------------------------------------------------------------------------------
// What a call is given

// An array that all groups share (slice 0), or that has one slice a group; absent if null.
struct Shared {
  const float* data = nullptr;
  int64_t slice = 0;
  const float* of(int64_t group) const { return data ? data + group * slice : nullptr; }
};

// Sequences come in groups; the sequences of a group share rows, offsets and parameters, and their
// gradients are summed. Step t of a sequence is dense[t], or gain[id, t] * (rows[id] + offsets[t])
// + shift.
struct Inputs {
  int64_t groups, batch, steps, units, values, chunk;
  const float* dense = nullptr;      // (groups, batch, steps, p), or null
  Shared rows, offsets, gain, shift; // (values, p), (steps, p), (values, steps), (p)
  Shared parameters;                 // (q, units)
  const int32_t* ids = nullptr;      // (groups, batch, steps) where there are rows
  const int32_t* lengths = nullptr;  // (groups, batch), or null
  const bool* resets = nullptr;      // (groups, batch, steps), or null

  int64_t chunks() const { return (steps + chunk - 1) / chunk; }
  bool ids_in_range() const {
    if (!ids) return true;
    bool inside = true;
    for (int64_t i = 0; i < groups * batch * steps; ++i) {
      inside &= static_cast<uint32_t>(ids[i]) < static_cast<uint64_t>(values);
    }
    return inside;
  }
};

// ---------------------------------------------------------------------------------------------
// How work is divided: by shapes alone

struct Division {
  int64_t blocks, width;    // of the units
  int64_t together;         // blocks that one task takes by turns
  int64_t parts, per_part;  // of the sequences of a group
  int64_t count;            // sequences side by side in a strip
  bool table;               // gates once per value and position

  explicit Division(const Inputs& in) {
    blocks = (in.units + kLanes - 1) / kLanes;
    width = (in.units + blocks - 1) / blocks;
    if (blocks > 1) width = (width + kWidth - 1) / kWidth * kWidth;
    count = std::max<int64_t>(1, kLanes / width);
    parts = std::min(kParts, std::max<int64_t>(1, in.batch / 8));
    if (in.dense) parts = std::min(2 * kParts, (in.batch + count - 1) / count);
    const int64_t worthwhile = in.ids ? in.batch / (2 * in.values) : 0;
    table = worthwhile > 1;
    if (table) parts = std::min(parts, worthwhile);
    per_part = (in.batch + parts - 1) / parts;
    together = in.dense && in.groups * parts >= kParts ? blocks : 1;
  }
  int64_t split() const { return blocks / together; }
  int64_t tasks(const Inputs& in) const { return in.groups * parts * split(); }
};

// What one worker does: some sequences of a group, some units.
struct Share {
  int64_t group, part, block, begin, end, unit, width;

  Share(const Inputs& in, const Division& by, int64_t task, int64_t turn)
      : group(task / (by.parts * by.split())), part(task / by.split() % by.parts),
        block(task % by.split() * by.together + turn),
        begin(std::min(in.batch, part * by.per_part)),
        end(std::min(in.batch, begin + by.per_part)), unit(block * by.width),
        width(std::min(by.width, in.units - unit)) {}
};

// Neighbours side by side in the lanes: `count` sequences (or values, for a table), `width` units.
struct Strip {
  int64_t first, count, width, vectors;

  Strip(int64_t first, int64_t end, int64_t width, const Division& by)
      : first(first), count(std::min(end - first, by.count)), width(width),
        vectors((count * width + kWidth - 1) / kWidth) {}
};

// ---------------------------------------------------------------------------------------------
// Memory: zeroed, aligned vectors; row i of a strip's array has kVectors vectors

class Rows {
 public:
  explicit Rows(int64_t rows) : data_(allocate(rows * kVectors)) {}
  V* operator[](int64_t row) { return data_.get() + row * kVectors; }
  float* lanes(int64_t row) { return reinterpret_cast<float*>((*this)[row]); }
  const float* lanes(int64_t row) const {
    return reinterpret_cast<const float*>(data_.get() + row * kVectors);
  }

 private:
  struct Free {
    void operator()(V* p) const { std::free(p); }
  };
  static V* allocate(int64_t vectors) {
    const size_t bytes = std::max<int64_t>(1, vectors) * sizeof(V);
    void* p = std::aligned_alloc(alignof(V), bytes);
    if (!p) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    return static_cast<V*>(p);
  }
  std::unique_ptr<V, Free> data_;
};

// ---------------------------------------------------------------------------------------------
// What forward and backward share

template <class Cell>
class Unroller {
 public:
  static constexpr int J = Cell::projections, Q = Cell::parameters, S = Cell::parts;

  Unroller(const Inputs& in, const Division& by, int64_t task, int64_t turn)
      : in_(in), by_(by), share_(in, by, task, turn), rows_(in.rows.of(share_.group)),
        offsets_(in.offsets.of(share_.group)), gain_(in.gain.of(share_.group)),
        shift_(in.shift.of(share_.group)), q_(Q), p_(in.chunk * J), a_(in.chunk * S),
        d_(in.chunk * S), h_((in.chunk + 1) * S),
        ids_(in.ids ? in.chunk * by.count : 0), gains_(gain_ ? in.chunk * by.count : 0),
        table_(by.table ? in.chunk * in.values * 2 * S * share_.width : 0) {
    const float* q = in.parameters.of(share_.group);
    for (int j = 0; j < Q; ++j) {
      for (int64_t s = 0; s < by.count; ++s) {
        copy(q + j * in.units + share_.unit, share_.width, q_.lanes(j) + s * share_.width);
      }
    }
  }

 protected:
  const Inputs& in_;
  const Division& by_;
  const Share share_;
  const float *rows_, *offsets_, *gain_, *shift_;
  Rows q_, p_, a_, d_, h_;    // parameters; projections, decays, drives, states of a chunk
  std::vector<int32_t> ids_;  // of a strip and chunk, by sequence and step; their gains
  std::vector<float> gains_;
  std::vector<float> table_;  // decays and drives by position, value, kind

  int64_t strips() const { return (share_.end - share_.begin + by_.count - 1) / by_.count; }
  Strip strip(int64_t s) const {
    return Strip(share_.begin + s * by_.count, share_.end, share_.width, by_);
  }
  int64_t stride() const { return J * in_.units; }
  int64_t sequence(int64_t s) const { return share_.group * in_.batch + s; }
  int64_t length(int64_t s) const {
    return in_.lengths ? std::clamp<int64_t>(in_.lengths[sequence(s)], 0, in_.steps) : in_.steps;
  }
  bool any_before_end(const Strip& strip, int64_t t0) const {
    for (int64_t s = 0; s < strip.count; ++s) {
      if (t0 < length(strip.first + s)) return true;
    }
    return false;
  }
  float* entry(std::vector<float>& table, int64_t i, int64_t value) const {
    return table.data() + (i * in_.values + value) * 2 * S * share_.width;
  }

  // A state array (.., units) of a strip's sequences, each `step` units after the other, into
  // lanes, and back; `sign` multiplies imaginary parts.
  void load(const float* from, int64_t step, const Strip& strip, V* to, float sign = 1) const {
    const int64_t w = strip.width;
    float* lanes = reinterpret_cast<float*>(to);
    for (int part = 0; part < S; ++part) to[part * kVectors + strip.vectors - 1] = all(0);
    for (int64_t s = 0; s < strip.count; ++s, lanes += w) {
      const float* source = from + (s * step + share_.unit) * S;
      if constexpr (S == 1) {
        copy(source, w, lanes);
      } else {
        int64_t u = 0;
        for (V h[S]; u + kWidth <= w; u += kWidth) {
          get_state<S>(source + 2 * u, h, sign);
          for (int part = 0; part < S; ++part) put(lanes + part * kLanes + u, h[part]);
        }
        for (; u < w; ++u) {
          lanes[u] = source[2 * u];
          lanes[kLanes + u] = sign * source[2 * u + 1];
        }
      }
    }
  }
  void store(const V* from, const Strip& strip, float* to, int64_t step, float sign = 1) const {
    const int64_t w = strip.width;
    const float* lanes = reinterpret_cast<const float*>(from);
    for (int64_t s = 0; s < strip.count; ++s, lanes += w) {
      float* target = to + (s * step + share_.unit) * S;
      if constexpr (S == 1) {
        copy(lanes, w, target);
      } else {
        int64_t u = 0;
        for (V h[S]; u + kWidth <= w; u += kWidth) {
          for (int part = 0; part < S; ++part) h[part] = get<V>(lanes + part * kLanes + u);
          put_state<S>(target + 2 * u, h, sign);
        }
        for (; u < w; ++u) {
          target[2 * u] = lanes[u];
          target[2 * u + 1] = sign * lanes[kLanes + u];
        }
      }
    }
  }

  // The ids of a strip (of sequences, or of values) and their gains: all at once, so that the
  // processor can wait for many cache lines at a time.
  void look_up(const Strip& strip, int64_t t0, int64_t n, bool values) {
    if (!in_.ids) return;
    for (int64_t s = 0; s < strip.count; ++s) {
      int32_t* ids = ids_.data() + s * n;
      if (values) {
        std::fill_n(ids, n, static_cast<int32_t>(strip.first + s));
      } else {
        std::copy_n(in_.ids + sequence(strip.first + s) * in_.steps + t0, n, ids);
      }
      if (!gain_) continue;
      float* gains = gains_.data() + s * n;
      for (int64_t i = 0; i < n; ++i) gains[i] = gain_[ids[i] * in_.steps + t0 + i];
    }
  }

  // Projections of a strip, steps t0 to t0 + n.
  void fetch(const Strip& strip, int64_t t0, int64_t n, bool values) {
    look_up(strip, t0, n, values);
    with_width(strip.width, [&](auto w) { fetch_rows(strip, t0, n, w); });
  }
  template <class Width>
  void fetch_rows(const Strip& strip, int64_t t0, int64_t n, Width w) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t t = t0 + i;
      for (int64_t s = 0; s < strip.count; ++s) {
        const float* row =
            in_.dense ? in_.dense + (sequence(strip.first + s) * in_.steps + t) * stride()
                      : rows_ + ids_[s * n + i] * stride();
        for (int j = 0; j < J; ++j) {
          const int64_t at = j * in_.units + share_.unit;
          float* to = p_.lanes(i * J + j) + s * w;
          const float* x = row + at;
          if (!offsets_) {
            copy(x, w, to);
            continue;
          }
          const float* y = offsets_ + t * stride() + at;
          if (!gain_) {
            over(w, [&](auto type, int64_t u) {
              using T = decltype(type);
              put(to + u, get<T>(x + u) + get<T>(y + u));
            });
            continue;
          }
          const float gain = gains_[s * n + i];
          const float* shift = shift_ + at;
          over(w, [&](auto type, int64_t u) {
            using T = decltype(type);
            put(to + u, gain * (get<T>(x + u) + get<T>(y + u)) + get<T>(shift + u));
          });
        }
      }
    }
  }

  void gate(const Strip& strip, int64_t n) {
    V q[Q + 1], p[J], a[S], d[S];
    for (int64_t v = 0; v < strip.vectors; ++v) {
      for (int j = 0; j < Q; ++j) q[j] = q_[j][v];
      for (int64_t i = 0; i < n; ++i) {
        for (int j = 0; j < J; ++j) p[j] = p_[i * J + j][v];
        Cell::gate(p, q, Cell::costly(p), a, d);
        for (int part = 0; part < S; ++part) {
          a_[i * S + part][v] = a[part];
          d_[i * S + part][v] = d[part];
        }
      }
    }
  }

  // The table of decays and drives for steps t0 to t0 + n.
  void fill_table(int64_t t0, int64_t n) {
    for (int64_t value = 0; value < in_.values;) {
      const Strip strip(value, in_.values, share_.width, by_);
      fetch(strip, t0, n, true);
      gate(strip, n);
      const int64_t w = strip.width;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t s = 0; s < strip.count; ++s) {
          float* to = entry(table_, i, value + s);
          for (int part = 0; part < S; ++part) {
            copy(a_.lanes(i * S + part) + s * w, w, to + part * w);
            copy(d_.lanes(i * S + part) + s * w, w, to + (S + part) * w);
          }
        }
      }
      value += strip.count;
    }
  }

  // Decays and drives of a strip: looked up or computed, then masked by lengths and resets.
  void transitions(const Strip& strip, int64_t t0, int64_t n) {
    if (by_.table) {
      look_up(strip, t0, n, false);
      with_width(strip.width, [&](auto w) {
        for (int64_t s = 0; s < strip.count; ++s) {
          const int32_t* ids = ids_.data() + s * n;
          const float* from = table_.data();
          for (int64_t i = 0; i < n; ++i, from += in_.values * 2 * S * w) {
            for (int part = 0; part < S; ++part) {
              const float* decay = from + (ids[i] * 2 * S + part) * w;
              copy(decay, w, a_.lanes(i * S + part) + s * w);
              copy(decay + S * w, w, d_.lanes(i * S + part) + s * w);
            }
          }
        }
      });
    } else {
      fetch(strip, t0, n, false);
      gate(strip, n);
    }
    mask(strip, t0, n, a_, d_, 1.0f);
  }

  // Steps beyond a sequence's length retain (decay `retain`, drive 0); a reset has decay 0. With
  // retain = 0, the transpose: what reaches the derivatives.
  void mask(const Strip& strip, int64_t t0, int64_t n, Rows& decay, Rows& drive, float retain) {
    if (!in_.lengths && !in_.resets) return;
    const int64_t w = strip.width;
    for (int64_t s = 0; s < strip.count; ++s) {
      const int64_t end = length(strip.first + s);
      for (int64_t i = 0; i < n; ++i) {
        const bool beyond = t0 + i >= end;
        const bool reset =
            in_.resets && in_.resets[sequence(strip.first + s) * in_.steps + t0 + i];
        if (!beyond && !reset) continue;
        for (int part = 0; part < S; ++part) {
          const float value = beyond && part == 0 ? retain : 0.0f;
          fill(decay.lanes(i * S + part) + s * w, w, value);
          if (beyond) fill(drive.lanes(i * S + part) + s * w, w, 0.0f);
        }
      }
    }
  }

  // The states h_[i + 1] from h_[0] on.
  void unroll(const Strip& strip, int64_t n) {
    with_vectors(strip.vectors, [&](auto vectors) { unroll_vectors<vectors>(n); });
  }

  // Whether a strip can go from memory to memory without a copy between: whole vectors of one
  // dense sequence, and nothing masked.
  bool is_plain(const Strip& strip) const {
    return in_.dense && !in_.lengths && !in_.resets && strip.count == 1 &&
           strip.width % kWidth == 0;
  }
  // Gates and states of a plain strip, from h_[0] on: f(i, v, kept, h) hears of each.
  template <int N, class F>
  PERSISTOR_INLINE void unroll_plain(const Strip& strip, int64_t t0, int64_t n, F&& f) {
    const float* row = dense_row(strip, t0);
    V h[N][S], q[N][Q + 1];
    for (int v = 0; v < N; ++v) {
      for (int part = 0; part < S; ++part) h[v][part] = h_[part][v];
      for (int j = 0; j < Q; ++j) q[v][j] = q_[j][v];
    }
    for (int64_t i = 0; i < n; ++i, row += stride()) {
      for (int v = 0; v < N; ++v) {
        V p[J], a[S], d[S];
        get_projections(row, v, p);
        const V kept = Cell::costly(p);
        Cell::gate(p, q[v], kept, a, d);
        Cell::advance(q[v], a, d, h[v]);
        f(i, v, kept, h[v]);
      }
    }
  }
  const float* dense_row(const Strip& strip, int64_t t) const {
    return in_.dense + (sequence(strip.first) * in_.steps + t) * stride() + share_.unit;
  }
  PERSISTOR_INLINE void get_projections(const float* row, int v, V* p) const {
    for (int j = 0; j < J; ++j) p[j] = get<V>(row + j * in_.units + v * kWidth);
  }

 private:
  template <int N>
  void unroll_vectors(int64_t n) {
    V h[N][S], q[N][Q + 1];
    for (int v = 0; v < N; ++v) {
      for (int part = 0; part < S; ++part) h[v][part] = h_[part][v];
      for (int j = 0; j < Q; ++j) q[v][j] = q_[j][v];
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int v = 0; v < N; ++v) {
        V a[S], d[S];
        for (int part = 0; part < S; ++part) {
          a[part] = a_[i * S + part][v];
          d[part] = d_[i * S + part][v];
        }
        Cell::advance(q[v], a, d, h[v]);
        for (int part = 0; part < S; ++part) h_[(i + 1) * S + part][v] = h[v][part];
      }
    }
  }
};

// One task: its blocks of units by turns, so that neighbours in memory are read together. Dense
// sequences are read from one end to the other; otherwise all sequences go through one chunk before
// the next, and what belongs to its positions stays in the cache.
template <class Worker>
void run_task(const Inputs& in, std::vector<Worker>& blocks) {
  const int64_t chunks = in.chunks(), strips = blocks[0].strips();
  const auto each_chunk = [&](auto&& visit) {
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t c = Worker::backwards ? chunks - 1 - i : i;
      visit(c, c * in.chunk, std::min(in.chunk, in.steps - c * in.chunk));
    }
  };
  if (in.dense) {
    for (int64_t s = 0; s < strips; ++s) {
      each_chunk([&](int64_t c, int64_t t0, int64_t n) {
        for (Worker& worker : blocks) worker.step(s, c, t0, n);
      });
    }
    return;
  }
  each_chunk([&](int64_t c, int64_t t0, int64_t n) {
    for (Worker& worker : blocks) {
      worker.open(t0, n);
      for (int64_t s = 0; s < strips; ++s) worker.step(s, c, t0, n);
      worker.close(t0, n);
    }
  });
}

// ---------------------------------------------------------------------------------------------
// Forward

// Complex arrays have real and imaginary parts by turns.
struct Outputs {
  float* states = nullptr;       // (groups, batch, steps, units), or null
  float* last;                   // (groups, batch, units)
  float* checkpoints = nullptr;  // (groups, batch, chunks, units): states before each; or null
};

template <class Cell>
class Forward : Unroller<Cell> {
  using Base = Unroller<Cell>;
  using Base::S, Base::in_, Base::by_, Base::share_, Base::h_;

 public:
  using Base::strips;
  static constexpr bool backwards = false;

  Forward(const Inputs& in, const Division& by, int64_t task, int64_t turn, const float* first,
          const Outputs& out)
      : Base(in, by, task, turn), first_(first), out_(out) {}

  void open(int64_t t0, int64_t n) {
    if (by_.table) this->fill_table(t0, n);
  }
  void close(int64_t, int64_t) {}

  void step(int64_t s, int64_t c, int64_t t0, int64_t n) {
    const Strip strip = this->strip(s);
    const int64_t units = in_.units, at = this->sequence(strip.first);
    float* last = out_.last + at * units * S;
    this->load(c ? last : first_ + at * units * S, units, strip, h_[0]);
    if (out_.checkpoints) {
      const int64_t chunks = in_.chunks();
      this->store(h_[0], strip, out_.checkpoints + (at * chunks + c) * units * S, chunks * units);
    }
    if (this->is_plain(strip) && out_.states) {
      float* to = out_.states + ((at * in_.steps + t0) * units + share_.unit) * S;
      with_vectors(strip.vectors, [&](auto vectors) {
        this->template unroll_plain<vectors>(
            strip, t0, n, [&](int64_t i, int v, V, const V* h) PERSISTOR_LAMBDA {
              put_state<S>(to + (i * units + v * kWidth) * S, h, 1);
              for (int part = 0; part < S; ++part) h_[part][v] = h[part];
            });
      });
      return this->store(h_[0], strip, last, units);
    }
    if (!out_.states && c && !this->any_before_end(strip, t0)) return;
    this->transitions(strip, t0, n);
    this->unroll(strip, n);
    if (out_.states) {
      for (int64_t i = 0; i < n; ++i) {
        float* to = out_.states + (at * in_.steps + t0 + i) * units * S;
        this->store(h_[(i + 1) * S], strip, to, in_.steps * units);
      }
    }
    this->store(h_[n * S], strip, last, units);
  }

 private:
  const float* first_;
  const Outputs& out_;
};

template <class Cell>
void forward(const Inputs& given, const float* first, const Outputs& out, const Runner& run) {
  Inputs in = given;
  const bool alike = !in.rows.slice && !in.offsets.slice && !in.gain.slice && !in.shift.slice &&
                     !in.parameters.slice;
  if (alike) {  // one large group: nothing is summed over its sequences
    in.batch *= in.groups;
    in.groups = 1;
  }
  const Division by(in);
  run(by.tasks(in), [&](int64_t task) {
    std::vector<Forward<Cell>> blocks;
    for (int64_t turn = 0; turn < by.together; ++turn) {
      blocks.emplace_back(in, by, task, turn, first, out);
    }
    run_task(in, blocks);
  });
}

// ---------------------------------------------------------------------------------------------
// Backward

// Cotangents as JAX has them: of a complex number, dL/dreal - i dL/dimaginary.
struct Cotangents {
  const float* checkpoints;       // from the forward pass
  const float* states = nullptr;  // (groups, batch, steps, units), or null
  const float* last;              // (groups, batch, units)
};

struct Gradients {
  float* dense = nullptr;  // (groups, batch, steps, p), or null
  float *rows = nullptr, *offsets = nullptr, *gain = nullptr, *shift = nullptr;  // with groups
  float* parameters;       // (groups, q, units)
  float* first;            // (groups, batch, units)
};

// Sums over the sequences of a group: part 0 adds into the result, the others into memory of their
// own, and then they are added up in order.
class Sum {
 public:
  Sum(float* result, int64_t size, int64_t groups, int64_t parts)
      : result_(result), size_(size), groups_(groups), parts_(parts) {
    if (result && parts > 1) others_.reset(new float[groups * (parts - 1) * size]);
  }
  float* of(const Share& share) const {
    if (!result_) return nullptr;
    if (share.part == 0) return result_ + share.group * size_;
    return others_.get() + (share.group * (parts_ - 1) + share.part - 1) * size_;
  }
  // Adds up the `slice`-th of `slices` pieces of every group.
  void add_up(int64_t slice, int64_t slices) const {
    if (!others_) return;
    const int64_t begin = size_ * slice / slices, end = size_ * (slice + 1) / slices;
    for (int64_t group = 0; group < groups_; ++group) {
      float* to = result_ + group * size_;
      for (int64_t part = 0; part < parts_ - 1; ++part) {
        const float* from = others_.get() + (group * (parts_ - 1) + part) * size_;
        for (int64_t i = begin; i < end; ++i) to[i] += from[i];
      }
    }
  }

 private:
  float* result_;
  int64_t size_, groups_, parts_;
  std::unique_ptr<float[]> others_;
};

struct Sums {
  Sum rows, offsets, shift, parameters;
  // The derivative of the gain at each step, one number a block of units: by sequence, or with a
  // table by part and value. Few values meet each (value, position), so they are added at the end.
  std::vector<float> gain;
  int64_t gain_rows;  // of a group

  template <class Cell>
  static Sums of(const Inputs& in, const Division& by, const Gradients& out) {
    const int64_t p = Cell::projections * in.units;
    const int64_t rows = by.table ? by.parts * in.values : in.batch;
    return {Sum(out.rows, in.values * p, in.groups, by.parts),
            Sum(out.offsets, in.steps * p, in.groups, by.parts),
            Sum(out.shift, p, in.groups, by.parts),
            Sum(out.parameters, Cell::parameters * in.units, in.groups, by.parts),
            std::vector<float>(out.gain ? by.blocks * in.groups * rows * in.steps : 0),
            rows};
  }
  float* gain_of(const Inputs& in, int64_t block, int64_t group, int64_t row) {
    return gain.data() + ((block * in.groups + group) * gain_rows + row) * in.steps;
  }
};

template <class Cell>
class Backward : Unroller<Cell> {
  using Base = Unroller<Cell>;
  using Base::J, Base::Q, Base::S, Base::in_, Base::by_, Base::share_, Base::h_, Base::a_,
      Base::p_, Base::q_, Base::rows_, Base::offsets_, Base::gain_;

 public:
  using Base::strips;
  static constexpr bool backwards = true;

  Backward(const Inputs& in, const Division& by, int64_t task, int64_t turn,
           const Cotangents& given, const Gradients& out, Sums& sums)
      : Base(in, by, task, turn), given_(given), out_(out), sums_(sums), drows_(sums.rows.of(share_)),
        doffsets_(sums.offsets.of(share_)), dshift_(sums.shift.of(share_)),
        dparameters_(sums.parameters.of(share_)), g_(S), incoming_(S), da_(in.chunk * S),
        dd_(in.chunk * S), dp_(in.chunk * J), dq_(Q),
        dtable_(this->table_.size()) {
    clear(drows_, in_.values);
    clear(doffsets_, in_.steps);
    clear(dshift_, 1);
  }

  void open(int64_t t0, int64_t n) {
    if (!by_.table) return;
    this->fill_table(t0, n);
    std::fill(dtable_.begin(), dtable_.end(), 0.0f);
  }
  void close(int64_t t0, int64_t n) {
    if (by_.table) empty_table(t0, n);
  }
  void finish() const {
    for (int j = 0; j < Q; ++j) add_lanes(dq_.lanes(j), dparameters_ + j * in_.units + share_.unit);
  }

  void step(int64_t s, int64_t c, int64_t t0, int64_t n) {
    const Strip strip = this->strip(s);
    const int64_t units = in_.units, at = this->sequence(strip.first), chunks = in_.chunks();
    const bool is_last = c == chunks - 1;
    float* carry = out_.first + at * units * S;
    this->load(is_last ? given_.last + at * units * S : carry, units, strip, g_[0], -1.0f);
    if (!given_.states && !this->any_before_end(strip, t0)) {
      if (is_last) this->store(g_[0], strip, carry, units, -1.0f);
      if (in_.dense) clear_dense(strip, t0, n);
      return;
    }
    const float* before = given_.checkpoints + (at * chunks + c) * units * S;
    this->load(before, chunks * units, strip, h_[0]);
    if (this->is_plain(strip)) {
      with_vectors(strip.vectors, [&](auto vectors) { step_plain<vectors>(strip, t0, n); });
      return this->store(g_[0], strip, carry, units, -1.0f);
    }
    this->transitions(strip, t0, n);
    this->unroll(strip, n);
    unroll_backwards(strip, t0, n);
    this->store(g_[0], strip, carry, units, -1.0f);
    this->mask(strip, t0, n, da_, dd_, 0.0f);
    if (by_.table) {
      add_to_table(strip, n);
    } else {
      gradient(strip, n);
      scatter(strip, t0, n, false);
    }
  }

 private:
  const Cotangents& given_;
  const Gradients& out_;
  Sums& sums_;
  float *drows_, *doffsets_, *dshift_, *dparameters_;
  Rows g_, incoming_, da_, dd_, dp_, dq_;
  std::vector<float> dtable_;

  void clear(float* sum, int64_t rows) const {
    if (!sum) return;
    for (int64_t i = 0; i < rows * J; ++i) {
      std::fill_n(sum + i * in_.units + share_.unit, share_.width, 0.0f);
    }
  }

  // Sets `to` to the sum over the sequences that lie side by side in the lanes.
  void add_lanes(const float* lanes, float* to) const {
    std::fill_n(to, share_.width, 0.0f);
    for (int64_t s = 0; s < by_.count; ++s) {
      for (int64_t u = 0; u < share_.width; ++u) to[u] += lanes[s * share_.width + u];
    }
  }

  // A chunk of a plain strip: its states again, then backwards, gradients straight to where they
  // belong.
  template <int N>
  void step_plain(const Strip& strip, int64_t t0, int64_t n) {
    this->template unroll_plain<N>(
        strip, t0, n, [&](int64_t i, int v, V kept, const V* h) PERSISTOR_LAMBDA {
          if (Cell::keeps) a_[i][v] = kept;
          for (int part = 0; part < S; ++part) h_[(i + 1) * S + part][v] = h[part];
        });
    const int64_t at = this->sequence(strip.first) * in_.steps + t0, stride = this->stride();
    const float* row = this->dense_row(strip, t0);
    const float* cotangent =
        given_.states ? given_.states + (at * in_.units + share_.unit) * S : nullptr;
    float* to = out_.dense + at * stride + share_.unit;
    V g[N][S], q[N][Q + 1], dq[N][Q + 1];
    for (int v = 0; v < N; ++v) {
      for (int part = 0; part < S; ++part) g[v][part] = g_[part][v];
      for (int j = 0; j < Q; ++j) {
        q[v][j] = q_[j][v];
        dq[v][j] = dq_[j][v];
      }
    }
    for (int64_t i = n - 1; i >= 0; --i) {
      for (int v = 0; v < N; ++v) {
        V p[J], a[S], d[S], h[S], da[S], dd[S], dp[J];
        if (cotangent) {
          get_state<S>(cotangent + (i * in_.units + v * kWidth) * S, h, -1.0f);
          for (int part = 0; part < S; ++part) g[v][part] += h[part];
        }
        this->get_projections(row + i * stride, v, p);
        const V kept = Cell::keeps ? a_[i][v] : Cell::costly(p);
        Cell::gate(p, q[v], kept, a, d);
        for (int part = 0; part < S; ++part) h[part] = h_[i * S + part][v];
        Cell::retreat(a, h, g[v], da, dd);
        Cell::gradient(p, q[v], kept, da, dd, dp, dq[v]);
        for (int j = 0; j < J; ++j) put(to + i * stride + j * in_.units + v * kWidth, dp[j]);
      }
    }
    for (int v = 0; v < N; ++v) {
      for (int part = 0; part < S; ++part) g_[part][v] = g[v][part];
      for (int j = 0; j < Q; ++j) dq_[j][v] = dq[v][j];
    }
  }

  // From the derivative g_ with respect to the last state: those with respect to every decay and
  // drive, and to the state before them.
  void unroll_backwards(const Strip& strip, int64_t t0, int64_t n) {
    with_vectors(strip.vectors,
                 [&](auto vectors) { unroll_backwards_vectors<vectors>(strip, t0, n); });
  }
  template <int N>
  void unroll_backwards_vectors(const Strip& strip, int64_t t0, int64_t n) {
    const int64_t at = this->sequence(strip.first);
    V g[N][S];
    for (int part = 0; part < S; ++part) {
      for (int v = 0; v < N; ++v) g[v][part] = g_[part][v];
    }
    for (int64_t i = n - 1; i >= 0; --i) {
      if (given_.states) {
        const float* from = given_.states + (at * in_.steps + t0 + i) * in_.units * S;
        this->load(from, in_.steps * in_.units, strip, incoming_[0], -1.0f);
        for (int part = 0; part < S; ++part) {
          for (int v = 0; v < N; ++v) g[v][part] += incoming_[part][v];
        }
      }
      for (int v = 0; v < N; ++v) {
        V a[S], h[S], da[S], dd[S];
        for (int part = 0; part < S; ++part) {
          a[part] = a_[i * S + part][v];
          h[part] = h_[i * S + part][v];
        }
        Cell::retreat(a, h, g[v], da, dd);
        for (int part = 0; part < S; ++part) {
          da_[i * S + part][v] = da[part];
          dd_[i * S + part][v] = dd[part];
        }
      }
    }
    for (int part = 0; part < S; ++part) {
      for (int v = 0; v < N; ++v) g_[part][v] = g[v][part];
    }
  }

  void gradient(const Strip& strip, int64_t n) {
    V q[Q + 1], p[J], da[S], dd[S], dp[J], dq[Q + 1];
    for (int64_t v = 0; v < strip.vectors; ++v) {
      for (int j = 0; j < Q; ++j) {
        q[j] = q_[j][v];
        dq[j] = dq_[j][v];
      }
      for (int64_t i = 0; i < n; ++i) {
        for (int j = 0; j < J; ++j) p[j] = p_[i * J + j][v];
        for (int part = 0; part < S; ++part) {
          da[part] = da_[i * S + part][v];
          dd[part] = dd_[i * S + part][v];
        }
        Cell::gradient(p, q, Cell::costly(p), da, dd, dp, dq);
        for (int j = 0; j < J; ++j) dp_[i * J + j][v] = dp[j];
      }
      for (int j = 0; j < Q; ++j) dq_[j][v] = dq[j];
    }
  }

  // The derivatives with respect to the projections: to where these came from.
  void scatter(const Strip& strip, int64_t t0, int64_t n, bool values) {
    with_width(strip.width, [&](auto w) { scatter_rows(strip, t0, n, values, w); });
  }
  template <class Width>
  void scatter_rows(const Strip& strip, int64_t t0, int64_t n, bool values, Width w) {
    const int64_t stride = this->stride();
    for (int64_t s = 0; s < strip.count; ++s) {
      const int64_t at = this->sequence(strip.first + s);
      const int64_t gain_row = values ? share_.part * in_.values + strip.first + s
                                      : strip.first + s;
      float* dgain = gain_ ? sums_.gain_of(in_, share_.block, share_.group, gain_row)
                                 : nullptr;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t t = t0 + i;
        const int64_t value = in_.dense ? 0 : this->ids_[s * n + i];
        const float gain = dgain ? this->gains_[s * n + i] : 1.0f;
        Total of_gain;
        for (int j = 0; j < J; ++j) {
          const int64_t unit = j * in_.units + share_.unit;
          const float* x = dp_.lanes(i * J + j) + s * w;
          if (in_.dense) {
            copy(x, w, out_.dense + (at * in_.steps + t) * stride + unit);
            continue;
          }
          float* drow = drows_ + value * stride + unit;
          if (!doffsets_) {
            over(w, [&](auto type, int64_t u) { add(drow + u, get<decltype(type)>(x + u)); });
            continue;
          }
          float* doffset = doffsets_ + t * stride + unit;
          if (!dgain) {
            over(w, [&](auto type, int64_t u) {
              const auto y = get<decltype(type)>(x + u);
              add(drow + u, y);
              add(doffset + u, y);
            });
            continue;
          }
          const float* row = rows_ + value * stride + unit;
          const float* offset = offsets_ + t * stride + unit;
          float* dshift = dshift_ + unit;
          over(w, [&](auto type, int64_t u) {
            using T = decltype(type);
            const T y = get<T>(x + u), scaled = gain * y;
            add(drow + u, scaled);
            add(doffset + u, scaled);
            add(dshift + u, y);
            of_gain.add(y * (get<T>(row + u) + get<T>(offset + u)));
          });
        }
        if (dgain) dgain[t] = of_gain.value();
      }
    }
  }

  void clear_dense(const Strip& strip, int64_t t0, int64_t n) const {
    for (int64_t s = 0; s < strip.count; ++s) {
      const int64_t at = this->sequence(strip.first + s) * in_.steps + t0;
      clear(out_.dense + at * this->stride(), n);
    }
  }

  void add_to_table(const Strip& strip, int64_t n) {
    with_width(strip.width, [&](auto w) {
      for (int64_t s = 0; s < strip.count; ++s) {
        const int32_t* ids = this->ids_.data() + s * n;
        float* to = dtable_.data();
        for (int64_t i = 0; i < n; ++i, to += in_.values * 2 * S * w) {
          for (int part = 0; part < S; ++part) {
            float* decay = to + (ids[i] * 2 * S + part) * w;
            const float* da = da_.lanes(i * S + part) + s * w;
            const float* dd = dd_.lanes(i * S + part) + s * w;
            over(w, [&](auto type, int64_t u) {
              using T = decltype(type);
              add(decay + u, get<T>(da + u));
              add(decay + S * w + u, get<T>(dd + u));
            });
          }
        }
      }
    });
  }

  // The gates' gradients, once per value and position.
  void empty_table(int64_t t0, int64_t n) {
    for (int64_t value = 0; value < in_.values;) {
      const Strip strip(value, in_.values, share_.width, by_);
      const int64_t w = strip.width;
      for (int64_t i = 0; i < n; ++i) {
        for (int part = 0; part < S; ++part) {
          fill(da_.lanes(i * S + part), kLanes, 0.0f);
          fill(dd_.lanes(i * S + part), kLanes, 0.0f);
        }
        for (int64_t s = 0; s < strip.count; ++s) {
          const float* from = this->entry(dtable_, i, value + s);
          for (int part = 0; part < S; ++part) {
            copy(from + part * w, w, da_.lanes(i * S + part) + s * w);
            copy(from + (S + part) * w, w, dd_.lanes(i * S + part) + s * w);
          }
        }
      }
      this->fetch(strip, t0, n, true);
      gradient(strip, n);
      scatter(strip, t0, n, true);
      value += strip.count;
    }
  }
};

// The gain's derivative, for the positions of one slice.
inline void add_up_gain(const Inputs& in, const Division& by, Sums& sums, float* out,
                        int64_t slice, int64_t slices) {
  const int64_t begin = in.steps * slice / slices, end = in.steps * (slice + 1) / slices;
  for (int64_t group = 0; group < in.groups; ++group) {
    float* to = out + group * in.values * in.steps;
    for (int64_t value = 0; value < in.values; ++value) {
      std::fill(to + value * in.steps + begin, to + value * in.steps + end, 0.0f);
    }
    for (int64_t block = 0; block < by.blocks; ++block) {
      for (int64_t row = 0; row < sums.gain_rows; ++row) {
        const float* from = sums.gain_of(in, block, group, row);
        const int32_t* ids = in.ids + (group * in.batch + row) * in.steps;
        for (int64_t t = begin; t < end; ++t) {
          const int64_t value = by.table ? row % in.values : ids[t];
          to[value * in.steps + t] += from[t];
        }
      }
    }
  }
}

template <class Cell>
void backward(const Inputs& in, const Cotangents& given, const Gradients& out,
              const Runner& run) {
  const Division by(in);
  Sums sums = Sums::of<Cell>(in, by, out);
  run(by.tasks(in), [&](int64_t task) {
    std::vector<Backward<Cell>> blocks;
    for (int64_t turn = 0; turn < by.together; ++turn) {
      blocks.emplace_back(in, by, task, turn, given, out, sums);
    }
    run_task(in, blocks);
    for (const auto& block : blocks) block.finish();
  });
  constexpr int64_t slices = 8;
  run(slices, [&](int64_t slice) {
    for (const Sum* sum : {&sums.rows, &sums.offsets, &sums.shift, &sums.parameters}) {
      sum->add_up(slice, slices);
    }
    if (out.gain) add_up_gain(in, by, sums, out.gain, slice, slices);
  });
}

}  // namespace persistor
