// The recurrence forward: all states, the last one, and checkpoints.

#pragma once

#include "unroller.h"

namespace persistor {

// Complex arrays have real and imaginary parts by turns.
struct Outputs {
  float* states = nullptr;       // (groups, batch, length, units), or null
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
    if (by_.lookup) this->fill_lookup(t0, n);
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
    if (!out_.states && c && !this->any_before_end(strip, t0)) return;
    if (this->is_plain(strip)) {
      with_vectors(strip.vectors, [&](auto vectors) {
        this->with_source(strip, t0, n, [&](const auto& from) {
          step_plain<vectors>(from, out_.states ? states_of(at, t0) : nullptr, n);
        });
      });
      return this->store(h_[0], strip, last, units);
    }
    this->advance(strip, t0, n);
    if (out_.states) {
      for (int64_t i = 0; i < n; ++i) {
        float* to = out_.states + (at * in_.length + t0 + i) * units * S;
        this->store(h_[(i + 1) * S], strip, to, in_.length * units);
      }
    }
    this->store(h_[n * S], strip, last, units);
  }

 private:
  const float* first_;
  const Outputs& out_;

  float* states_of(int64_t sequence, int64_t t) const {
    return out_.states + ((sequence * in_.length + t) * in_.units + share_.unit) * S;
  }
  template <int N, class Source>
  void step_plain(const Source from, float* to, int64_t n) {
    this->template unroll_plain<N>(
        from, n, [&](int64_t i, int v, V, const V* h) PERSISTOR_LAMBDA {
          if (to) put_state<S>(to + (i * in_.units + v * kWidth) * S, h, 1);
          for (int part = 0; part < S; ++part) h_[part][v] = h[part];
        });
  }
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

}  // namespace persistor
