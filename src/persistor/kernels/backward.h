// The recurrence backward: gradients of all that a call is given, from the checkpoints.

#pragma once

#include "unroller.h"

namespace persistor {

// Cotangents as JAX has them: of a complex number, dL/dreal - i dL/dimaginary.
struct Cotangents {
  const float* checkpoints;       // from the forward pass
  const float* states = nullptr;  // (groups, batch, length, units), or null
  const float* last;              // (groups, batch, units)
};

struct Gradients {
  float* dense = nullptr;  // (groups, batch, length, p), or null
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
  // lookup by part and value. Few values meet each (value, position), so they are added at the end.
  std::vector<float> gain;
  int64_t gain_rows;  // of a group

  template <class Cell>
  static Sums of(const Inputs& in, const Division& by, const Gradients& out) {
    const int64_t p = Cell::projections * in.units;
    const int64_t rows = by.lookup ? by.parts * in.values : in.batch;
    return {Sum(out.rows, in.values * p, in.groups, by.parts),
            Sum(out.offsets, in.length * p, in.groups, by.parts),
            Sum(out.shift, p, in.groups, by.parts),
            Sum(out.parameters, Cell::parameters * in.units, in.groups, by.parts),
            std::vector<float>(out.gain ? by.blocks * in.groups * rows * in.length : 0),
            rows};
  }
  float* gain_of(const Inputs& in, int64_t block, int64_t group, int64_t row) {
    return gain.data() + ((block * in.groups + group) * gain_rows + row) * in.length;
  }
};

// Where the gradients of a plain strip's projections go, from where these were read.
template <int J>
struct IntoWritten {
  static constexpr bool gained = false;
  float* rows;
  int64_t units;

  struct Step {
    float* row;
    int64_t units;

    PERSISTOR_INLINE void add(int v, const V* dp, const V*, V*, V&) const {
      for (int j = 0; j < J; ++j) put(row + j * units + v * kWidth, dp[j]);
    }
    PERSISTOR_INLINE void finish(V) const {}
  };
  PERSISTOR_INLINE Step at(int64_t i) const { return {rows + i * J * units, units}; }
};
template <int J>
struct IntoSummed {
  static constexpr bool gained = true;
  float *rows, *offsets, *of_gain;
  const float* gains;
  const int32_t* ids;
  int64_t units;

  struct Step {
    float *row, *offset, *of_gain;
    float gain;
    int64_t units;

    PERSISTOR_INLINE void add(int v, const V* dp, const V* sum, V* dshift, V& total) const {
      for (int j = 0; j < J; ++j) {
        const int64_t u = j * units + v * kWidth;
        const V scaled = gain * dp[j];
        persistor::add(row + u, scaled);
        persistor::add(offset + u, scaled);
        dshift[j] += dp[j];
        total += dp[j] * sum[j];
      }
    }
    PERSISTOR_INLINE void finish(V total) const {
      Total all;
      all.add(total);
      *of_gain = all.value();
    }
  };
  PERSISTOR_INLINE Step at(int64_t i) const {
    return {rows + ids[i] * J * units, offsets + i * J * units, of_gain + i, gains[i], units};
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
        dlookup_(this->lookup_.size()) {
    clear(drows_, in_.values);
    clear(doffsets_, in_.length);
    clear(dshift_, 1);
  }

  void open(int64_t t0, int64_t n) {
    if (!by_.lookup) return;
    this->fill_lookup(t0, n);
    std::fill(dlookup_.begin(), dlookup_.end(), 0.0f);
  }
  void close(int64_t t0, int64_t n) {
    if (by_.lookup) empty_lookup(t0, n);
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
      with_vectors(strip.vectors, [&](auto vectors) {
        this->with_source(strip, t0, n, [&](const auto& from) {
          step_plain<vectors>(from, into(from, strip, t0), strip, t0, n);
        });
      });
      return this->store(g_[0], strip, carry, units, -1.0f);
    }
    this->advance(strip, t0, n);
    if constexpr (S == 1) {
      if (this->looks_up_fours(strip)) {
        with_vectors(strip.vectors, [&](auto vectors) { retreat_fours<vectors>(strip, t0, n); });
        return this->store(g_[0], strip, carry, units, -1.0f);
      }
    }
    unroll_backwards(strip, t0, n);
    this->store(g_[0], strip, carry, units, -1.0f);
    this->mask(strip, t0, n, da_, dd_, 0.0f);
    if (by_.lookup) {
      add_to_lookup(strip, n);
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
  std::vector<float> dlookup_;

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

  // Where the gradients of a plain strip's projections go.
  auto into(const Written<J>& from, const Strip&, int64_t) const {
    return IntoWritten<J>{out_.dense + (from.rows - in_.dense), in_.units};
  }
  auto into(const Summed<J>& from, const Strip& strip, int64_t t0) const {
    return IntoSummed<J>{drows_ + share_.unit, doffsets_ + t0 * this->stride() + share_.unit,
                         sums_.gain_of(in_, share_.block, share_.group, strip.first) + t0,
                         from.gains, from.ids, in_.units};
  }
  // What all steps add to: the shift.
  template <int N, bool add>
  PERSISTOR_INLINE void move_shift(V (*dshift)[J]) const {
    for (int v = 0; v < N; ++v) {
      for (int j = 0; j < J; ++j) {
        float* at = dshift_ + share_.unit + j * in_.units + v * kWidth;
        if (add) put(at, dshift[v][j]);
        else dshift[v][j] = get<V>(at);
      }
    }
  }

  // A chunk of a plain strip: its states again, then backwards, gradients straight to where they
  // belong.
  template <int N, class Source, class Into>
  void step_plain(const Source from, const Into into, const Strip& strip, int64_t t0, int64_t n) {
    this->template unroll_plain<N>(
        from, n, [&](int64_t i, int v, V kept, const V* h) PERSISTOR_LAMBDA {
          if (Cell::keeps) a_[i][v] = kept;
          for (int part = 0; part < S; ++part) h_[(i + 1) * S + part][v] = h[part];
        });
    const int64_t at = this->sequence(strip.first) * in_.length + t0;
    const float* cotangent =
        given_.states ? given_.states + (at * in_.units + share_.unit) * S : nullptr;
    V g[N][S], q[N][Q + 1], dq[N][Q + 1], dshift[N][J];
    for (int v = 0; v < N; ++v) {
      for (int part = 0; part < S; ++part) g[v][part] = g_[part][v];
      for (int j = 0; j < Q; ++j) {
        q[v][j] = q_[j][v];
        dq[v][j] = dq_[j][v];
      }
    }
    if constexpr (Into::gained) move_shift<N, false>(dshift);
    for (int64_t i = n - 1; i >= 0; --i) {
      const auto step = from.at(i);
      const auto back = into.at(i);
      V of_gain = {};
      PERSISTOR_UNROLL for (int v = 0; v < N; ++v) {
        V p[J], sum[J], a[S], d[S], h[S], da[S], dd[S], dp[J];
        if (cotangent) {
          get_state<S>(cotangent + (i * in_.units + v * kWidth) * S, h, -1.0f);
          for (int part = 0; part < S; ++part) g[v][part] += h[part];
        }
        step.get(v, p, sum);
        const V kept = Cell::keeps ? a_[i][v] : Cell::costly(p);
        Cell::gate(p, q[v], kept, a, d);
        for (int part = 0; part < S; ++part) h[part] = h_[i * S + part][v];
        Cell::retreat(a, h, g[v], da, dd);
        Cell::gradient(p, q[v], kept, da, dd, dp, dq[v]);
        back.add(v, dp, sum, dshift[v], of_gain);
      }
      back.finish(of_gain);
    }
    if constexpr (Into::gained) move_shift<N, true>(dshift);
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
        const float* from = given_.states + (at * in_.length + t0 + i) * in_.units * S;
        this->load(from, in_.length * in_.units, strip, incoming_[0], -1.0f);
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

  // The same for sequences of four units, straight into the lookup's derivatives.
  template <int N>
  void retreat_fours(const Strip& strip, int64_t t0, int64_t n) {
    const int64_t at = this->sequence(strip.first);
    V g[N];
    for (int v = 0; v < N; ++v) g[v] = g_[0][v];
    for (int64_t i = n - 1; i >= 0; --i) {
      if (given_.states) {
        const float* from = given_.states + (at * in_.length + t0 + i) * in_.units;
        this->load(from, in_.length * in_.units, strip, incoming_[0]);
        for (int v = 0; v < N; ++v) g[v] += incoming_[0][v];
      }
      for (int v = 0; v < N; ++v) {
        const V decay = a_[i][v], h = h_[i][v];
        V da, dd;
        Cell::retreat(&decay, &h, &g[v], &da, &dd);
        Four decays[kFours], drives[kFours];
        std::memcpy(decays, &da, sizeof da);
        std::memcpy(drives, &dd, sizeof dd);
        for (int k = 0; k < kFours; ++k) {
          add(dlookup_.data() + this->four(i, v, k, n), pair(decays[k], drives[k]));
        }
      }
    }
    for (int v = 0; v < N; ++v) g_[0][v] = g[v];
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
    if (values && this->are_fours(strip)) {
      return with_vectors(strip.vectors,
                          [&](auto vectors) { scatter_fours<vectors>(strip, t0, n); });
    }
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
            copy(x, w, out_.dense + (at * in_.length + t) * stride + unit);
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

  // The same for values of four units.
  template <int N>
  void scatter_fours(const Strip& strip, int64_t t0, int64_t n) {
    const auto from = this->template fours<N>(strip, t0, n);
    const int64_t stride = this->stride();
    V of_rows[J][N] = {}, of_shift[J] = {};
    for (int64_t i = 0; i < n; ++i) {
      V of_offset[J] = {};
      for (int v = 0; v < N; ++v) {
        const V gain = from.gain(i, v);
        V of_gain = {};
        for (int j = 0; j < J; ++j) {
          const V dp = dp_[i * J + j][v], scaled = gain * dp;
          of_rows[j][v] += scaled;
          of_offset[j] += scaled;
          of_shift[j] += dp;
          of_gain += dp * (from.rows[j][v] + from.offset(i, j));
        }
        Four gains[kFours];
        std::memcpy(gains, &of_gain, sizeof of_gain);
        for (int k = 0; k < kFours; ++k) {
          const int64_t row = share_.part * in_.values + strip.first + v * kFours + k;
          sums_.gain_of(in_, share_.block, share_.group, row)[t0 + i] =
              (gains[k][0] + gains[k][2]) + (gains[k][1] + gains[k][3]);
        }
      }
      for (int j = 0; j < J; ++j) {
        float* to = doffsets_ + (t0 + i) * stride + j * in_.units + share_.unit;
        add(to, total_of_fours(of_offset[j]));
      }
    }
    for (int j = 0; j < J; ++j) {
      const int64_t unit = j * in_.units + share_.unit;
      add(dshift_ + unit, total_of_fours(of_shift[j]));
      for (int v = 0; v < N; ++v) {
        Four rows[kFours];
        std::memcpy(rows, &of_rows[j][v], sizeof rows);
        for (int k = 0; k < kFours; ++k) {
          add(drows_ + (strip.first + v * kFours + k) * stride + unit, rows[k]);
        }
      }
    }
  }

  void clear_dense(const Strip& strip, int64_t t0, int64_t n) const {
    for (int64_t s = 0; s < strip.count; ++s) {
      const int64_t at = this->sequence(strip.first + s) * in_.length + t0;
      clear(out_.dense + at * this->stride(), n);
    }
  }

  void add_to_lookup(const Strip& strip, int64_t n) {
    with_width(strip.width, [&](auto w) {
      for (int64_t s = 0; s < strip.count; ++s) {
        const int32_t* ids = this->ids_.data() + s * n;
        float* to = dlookup_.data();
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
  void empty_lookup(int64_t t0, int64_t n) {
    for (int64_t value = 0; value < in_.values;) {
      const Strip strip(value, in_.values, share_.width, by_);
      with_width(strip.width, [&](auto w) {
        for (int64_t i = 0; i < n; ++i) {
          for (int part = 0; part < S; ++part) {
            da_[i * S + part][strip.vectors - 1] = dd_[i * S + part][strip.vectors - 1] = V{};
          }
          const float* from = dlookup_.data() + (i * in_.values + value) * 2 * S * w;
          for (int64_t s = 0; s < strip.count; ++s, from += 2 * S * w) {
            for (int part = 0; part < S; ++part) {
              copy(from + part * w, w, da_.lanes(i * S + part) + s * w);
              copy(from + (S + part) * w, w, dd_.lanes(i * S + part) + s * w);
            }
          }
        }
      });
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
  const int64_t begin = in.length * slice / slices, end = in.length * (slice + 1) / slices;
  for (int64_t group = 0; group < in.groups; ++group) {
    float* to = out + group * in.values * in.length;
    for (int64_t value = 0; value < in.values; ++value) {
      std::fill(to + value * in.length + begin, to + value * in.length + end, 0.0f);
    }
    for (int64_t block = 0; block < by.blocks; ++block) {
      for (int64_t row = 0; row < sums.gain_rows; ++row) {
        const float* from = sums.gain_of(in, block, group, row);
        const int32_t* ids = in.ids + (group * in.batch + row) * in.length;
        for (int64_t t = begin; t < end; ++t) {
          const int64_t value = by.lookup ? row % in.values : ids[t];
          to[value * in.length + t] += from[t];
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
