// What forward and backward share: fetching, gating, masking and unrolling a strip.

#pragma once

#include "division.h"
#include "transitions.h"

namespace persistor {

// Where the J projections of a plain strip are read from. `at(i)` is step i, and its get(v, p, sum)
// reads vector v; `sum` is what a gain multiplies. All of it stays in registers.
template <int J>
struct Written {  // dense
  const float* rows;
  int64_t units;

  struct Step {
    const float* row;
    int64_t units;

    PERSISTOR_INLINE void get(int v, V* p, V*) const {
      for (int j = 0; j < J; ++j) p[j] = persistor::get<V>(row + j * units + v * kWidth);
    }
  };
  PERSISTOR_INLINE Step at(int64_t i) const { return {rows + i * J * units, units}; }
};
template <int J>
struct Summed {  // rows and offsets, with gain and shift
  const float *rows, *offsets, *shift, *gains;
  const int32_t* ids;
  int64_t units;

  struct Step {
    const float *row, *offset, *shift;
    float gain;
    int64_t units;

    PERSISTOR_INLINE void get(int v, V* p, V* sum) const {
      for (int j = 0; j < J; ++j) {
        const int64_t u = j * units + v * kWidth;
        sum[j] = persistor::get<V>(row + u) + persistor::get<V>(offset + u);
        p[j] = gain * sum[j] + persistor::get<V>(shift + u);
      }
    }
  };
  PERSISTOR_INLINE Step at(int64_t i) const {
    return {rows + ids[i] * J * units, offsets + i * J * units, shift, gains[i], units};
  }
};

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
        lookup_(by.lookup ? in.chunk * in.values * 2 * S * share_.width : 0) {
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
  std::vector<float> lookup_;  // decays and drives by position, value, kind

  int64_t strips() const { return (share_.end - share_.begin + by_.count - 1) / by_.count; }
  Strip strip(int64_t s) const {
    return Strip(share_.begin + s * by_.count, share_.end, share_.width, by_);
  }
  int64_t stride() const { return J * in_.units; }
  int64_t sequence(int64_t s) const { return share_.group * in_.batch + s; }
  int64_t length(int64_t s) const {
    return in_.lengths ? std::clamp<int64_t>(in_.lengths[sequence(s)], 0, in_.length) : in_.length;
  }
  bool any_before_end(const Strip& strip, int64_t t0) const {
    for (int64_t s = 0; s < strip.count; ++s) {
      if (t0 < length(strip.first + s)) return true;
    }
    return false;
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
        std::copy_n(in_.ids + sequence(strip.first + s) * in_.length + t0, n, ids);
      }
      if (!gain_ || (by_.lookup && !values)) continue;
      float* gains = gains_.data() + s * n;
      for (int64_t i = 0; i < n; ++i) gains[i] = gain_[ids[i] * in_.length + t0 + i];
    }
  }

  // Projections of a strip, steps t0 to t0 + n.
  void fetch(const Strip& strip, int64_t t0, int64_t n, bool values) {
    look_up(strip, t0, n, values);
    if (values && are_fours(strip)) {
      return with_vectors(strip.vectors, [&](auto vectors) { fetch_fours<vectors>(strip, t0, n); });
    }
    with_width(strip.width, [&](auto w) { fetch_rows(strip, t0, n, w); });
  }

  // Values of four units fill the lanes of a strip: what a vector needs of each is put side by side.
  bool are_fours(const Strip& strip) const {
    return gain_ && strip.width == 4 && strip.count % kFours == 0;
  }
  // What steps t0 on of a strip of values are made from.
  template <int N>
  struct Fours {
    V rows[J][N], shift[J];
    const float *offsets, *gains;
    int64_t units, n;

    PERSISTOR_INLINE V offset(int64_t i, int j) const {
      return repeated(get<Four>(offsets + (i * J + j) * units));
    }
    PERSISTOR_INLINE V gain(int64_t i, int v) const {
      Four fours[kFours];
      for (int k = 0; k < kFours; ++k) fours[k] = gains[(v * kFours + k) * n + i] - Four{};
      return side_by_side(fours);
    }
  };
  template <int N>
  PERSISTOR_INLINE Fours<N> fours(const Strip& strip, int64_t t0, int64_t n) const {
    Fours<N> from{{}, {}, offsets_ + t0 * stride() + share_.unit, gains_.data(), in_.units, n};
    for (int j = 0; j < J; ++j) {
      const int64_t unit = j * in_.units + share_.unit;
      from.shift[j] = repeated(get<Four>(shift_ + unit));
      for (int v = 0; v < N; ++v) {
        Four rows[kFours];
        for (int k = 0; k < kFours; ++k) {
          rows[k] = get<Four>(rows_ + (strip.first + v * kFours + k) * stride() + unit);
        }
        from.rows[j][v] = side_by_side(rows);
      }
    }
    return from;
  }
  template <int N>
  void fetch_fours(const Strip& strip, int64_t t0, int64_t n) {
    const Fours<N> from = fours<N>(strip, t0, n);
    for (int64_t i = 0; i < n; ++i) {
      for (int v = 0; v < N; ++v) {
        const V gain = from.gain(i, v);
        for (int j = 0; j < J; ++j) {
          p_[i * J + j][v] = gain * (from.rows[j][v] + from.offset(i, j)) + from.shift[j];
        }
      }
    }
  }
  template <class Width>
  void fetch_rows(const Strip& strip, int64_t t0, int64_t n, Width w) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t t = t0 + i;
      for (int64_t s = 0; s < strip.count; ++s) {
        const float* row =
            in_.dense ? in_.dense + (sequence(strip.first + s) * in_.length + t) * stride()
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

  // The lookup of decays and drives for steps t0 to t0 + n.
  void fill_lookup(int64_t t0, int64_t n) {
    for (int64_t value = 0; value < in_.values;) {
      const Strip strip(value, in_.values, share_.width, by_);
      fetch(strip, t0, n, true);
      gate(strip, n);
      with_width(strip.width, [&](auto w) {
        for (int64_t i = 0; i < n; ++i) {
          float* to = lookup_.data() + (i * in_.values + value) * 2 * S * w;
          for (int64_t s = 0; s < strip.count; ++s, to += 2 * S * w) {
            for (int part = 0; part < S; ++part) {
              copy(a_.lanes(i * S + part) + s * w, w, to + part * w);
              copy(d_.lanes(i * S + part) + s * w, w, to + (S + part) * w);
            }
          }
        }
      });
      value += strip.count;
    }
  }

  // Decays and drives of a strip: looked up or computed, then masked by lengths and resets.
  void transitions(const Strip& strip, int64_t t0, int64_t n) {
    if (by_.lookup) {
      look_up(strip, t0, n, false);
      with_width(strip.width, [&](auto w) {
        for (int64_t s = 0; s < strip.count; ++s) {
          const int32_t* ids = ids_.data() + s * n;
          const float* from = lookup_.data();
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
            in_.resets && in_.resets[sequence(strip.first + s) * in_.length + t0 + i];
        if (!beyond && !reset) continue;
        for (int part = 0; part < S; ++part) {
          const float value = beyond && part == 0 ? retain : 0.0f;
          fill(decay.lanes(i * S + part) + s * w, w, value);
          if (beyond) fill(drive.lanes(i * S + part) + s * w, w, 0.0f);
        }
      }
    }
  }

  // Decays, and the states h_[i + 1] from h_[0] on.
  void advance(const Strip& strip, int64_t t0, int64_t n) {
    if constexpr (S == 1) {
      if (looks_up_fours(strip)) {
        look_up(strip, t0, n, false);
        return with_vectors(strip.vectors, [&](auto vectors) { advance_fours<vectors>(n); });
      }
    }
    transitions(strip, t0, n);
    unroll(strip, n);
  }

  // Whether a strip goes from the lookup to the states without a copy between: sequences of four
  // units, and nothing masked.
  bool looks_up_fours(const Strip& strip) const {
    return by_.lookup && !in_.lengths && !in_.resets && are_fours(strip);
  }
  // Where the lookup has decay and drive of the k-th sequence of vector v at step i.
  PERSISTOR_INLINE int64_t four(int64_t i, int v, int k, int64_t n) const {
    return (i * in_.values + ids_[(v * kFours + k) * n + i]) * 8;
  }
  template <int N>
  void advance_fours(int64_t n) {
    V h[N], q[N][Q + 1];
    for (int v = 0; v < N; ++v) {
      h[v] = h_[0][v];
      for (int j = 0; j < Q; ++j) q[v][j] = q_[j][v];
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int v = 0; v < N; ++v) {
        Four decays[kFours], drives[kFours];
        for (int k = 0; k < kFours; ++k) {
          const float* from = lookup_.data() + four(i, v, k, n);
          decays[k] = get<Four>(from);
          drives[k] = get<Four>(from + 4);
        }
        const V decay = side_by_side(decays), drive = side_by_side(drives);
        Cell::advance(q[v], &decay, &drive, &h[v]);
        a_[i][v] = decay;
        h_[i + 1][v] = h[v];
      }
    }
  }

  void unroll(const Strip& strip, int64_t n) {
    with_vectors(strip.vectors, [&](auto vectors) { unroll_vectors<vectors>(n); });
  }

  // Whether a strip can go from memory to memory without a copy between: whole vectors of one
  // sequence, and nothing masked. Sums of rows and offsets need many registers.
  static constexpr bool kSumsArePlain = kVectors <= 2;
  bool is_plain(const Strip& strip) const {
    return (in_.dense || (kSumsArePlain && gain_ && !by_.lookup)) && !in_.lengths && !in_.resets &&
           strip.count == 1 && strip.width % kWidth == 0;
  }
  // Calls f with what a plain strip's projections are read from, steps t0 to t0 + n.
  template <class F>
  PERSISTOR_INLINE void with_source(const Strip& strip, int64_t t0, int64_t n, F&& f) {
    if constexpr (kSumsArePlain) {
      if (!in_.dense) {
        look_up(strip, t0, n, false);
        return f(Summed<J>{rows_ + share_.unit, offsets_ + t0 * stride() + share_.unit,
                           shift_ + share_.unit, gains_.data(), ids_.data(), in_.units});
      }
    }
    const int64_t first = sequence(strip.first) * in_.length + t0;
    f(Written<J>{in_.dense + first * stride() + share_.unit, in_.units});
  }
  // Gates and states of a plain strip, from h_[0] on: f(i, v, kept, h) hears of each.
  template <int N, class Source, class F>
  PERSISTOR_INLINE void unroll_plain(const Source from, int64_t n, F&& f) {
    V h[N][S], q[N][Q + 1];
    for (int v = 0; v < N; ++v) {
      for (int part = 0; part < S; ++part) h[v][part] = h_[part][v];
      for (int j = 0; j < Q; ++j) q[v][j] = q_[j][v];
    }
    for (int64_t i = 0; i < n; ++i) {
      const auto step = from.at(i);
      PERSISTOR_UNROLL for (int v = 0; v < N; ++v) {
        V p[J], sum[J], a[S], d[S];
        step.get(v, p, sum);
        const V kept = Cell::costly(p);
        Cell::gate(p, q[v], kept, a, d);
        Cell::advance(q[v], a, d, h[v]);
        f(i, v, kept, h[v]);
      }
    }
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
      visit(c, c * in.chunk, std::min(in.chunk, in.length - c * in.chunk));
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

}  // namespace persistor
