// A whole layer of linear recurrent units, forward and backward:
//
//   h_t = lambda h_{t-1} + gamma B x_t,  y_t = Re(C h_t) + D x_t
//
// A sequence goes through products and recurrence in chunks that stay in the cache, so nothing is
// written to memory between x and y. Complex rows are real: all real parts, then all imaginary ones,
// and Re(C h) is one real product. The states before each chunk are kept for the backward pass,
// which computes the others again.
//
// Each task sums its own gradients of the weights, and these are added up in order: the number of
// threads does not change a bit.

#pragma once

#include "cells.h"
#include "products.h"

namespace persistor {

constexpr int64_t kLayerParts = 16;  // of the sequences of a group, at most

struct LayerInputs {
  int64_t groups, batch, length, inputs, units, chunk;
  const float* x;                            // (groups, batch, length, inputs)
  const float *project, *parameters;         // (groups, inputs, 2 units), (groups, 3, units)
  const float *mix, *skip;                   // (groups, 2 units, units), (groups, inputs, units)
  const int32_t* lengths = nullptr;          // (groups, batch), or null
  const bool* resets = nullptr;              // (groups, batch, length), or null

  int64_t chunks() const { return (length + chunk - 1) / chunk; }
  int64_t parts() const { return std::min(batch, kLayerParts); }
};

// Complex states have real and imaginary parts by turns, but for the checkpoints.
struct LayerOutputs {
  float *y, *last;     // (groups, batch, length, units), (groups, batch, units)
  float* checkpoints;  // (groups, batch, chunks, 2 units), or null
};

// Cotangents as JAX has them: of a complex number, dL/dreal - i dL/dimaginary.
struct LayerCotangents {
  const float *checkpoints, *y, *last;
};
struct LayerGradients {
  float *x, *project, *parameters, *mix, *skip, *first;
};

// The weights of a group, in whole vectors.
struct LayerWeights {
  Matrix project, parameters, mix, skip;

  LayerWeights(const LayerInputs& in, int64_t group)
      : project(in.inputs, 2 * padded(in.units)), parameters(3, in.units),
        mix(2 * padded(in.units), in.units), skip(in.inputs, in.units) {
    const int64_t d = in.units, width = padded(d), m = in.inputs;
    for (int64_t part = 0; part < 2; ++part) {
      project.put(in.project + group * m * 2 * d + part * d, m, d, 2 * d, part * width);
      copy_rows(in.mix + (group * 2 + part) * d * d, d, d, mix.row(part * width), mix.pitch());
    }
    parameters.put(in.parameters + group * 3 * d, 3, d, d);
    skip.put(in.skip + group * m * d, m, d, d);
  }

 private:
  static void copy_rows(const float* from, int64_t rows, int64_t n, float* to, int64_t pitch) {
    for (int64_t i = 0; i < rows; ++i) copy(from + i * n, n, to + i * pitch);
  }
};

// What forward and backward share: the states of a chunk.
class LayerWorker {
 public:
  LayerWorker(const LayerInputs& in, const LayerWeights& weights)
      : in_(in), weights_(weights), width_(padded(in.units)), p_(in.chunk, 2 * width_),
        h_(in.chunk + 1, 2 * width_) {}

 protected:
  const LayerInputs& in_;
  const LayerWeights& weights_;
  const int64_t width_;  // of the units, in whole vectors
  Matrix p_, h_;         // projections; states, from the one before the chunk on

  const float* x_of(int64_t sequence, int64_t t) const {
    return in_.x + (sequence * in_.length + t) * in_.inputs;
  }
  bool beyond(int64_t sequence, int64_t t) const {
    return in_.lengths && t >= in_.lengths[sequence];
  }
  bool resets(int64_t sequence, int64_t t) const {
    return in_.resets && in_.resets[sequence * in_.length + t];
  }
  void parameters(int64_t u, V* q) const {
    for (int j = 0; j < 3; ++j) q[j] = get<V>(weights_.parameters.row(j) + u);
  }

  // The states of steps t0 to t0 + n, from row 0 of `h_` on.
  void run(int64_t sequence, int64_t t0, int64_t n) {
    multiply(n, 2 * width_, in_.inputs, {x_of(sequence, t0), in_.inputs, 1},
             weights_.project.row(0), weights_.project.pitch(), false, p_.row(0), p_.pitch());
    for (int64_t u = 0; u < width_; u += kWidth) {
      V q[3], h[2];
      parameters(u, q);
      for (int part = 0; part < 2; ++part) h[part] = get<V>(h_.row(0) + part * width_ + u);
      for (int64_t i = 0; i < n; ++i) {
        if (!beyond(sequence, t0 + i)) {
          V p[2], a[2], d[2];
          for (int part = 0; part < 2; ++part) p[part] = get<V>(p_.row(i) + part * width_ + u);
          Lru::gate(p, q, V{}, a, d);
          if (resets(sequence, t0 + i)) a[0] = a[1] = V{};
          Lru::advance(q, a, d, h);
        }
        for (int part = 0; part < 2; ++part) put(h_.row(i + 1) + part * width_ + u, h[part]);
      }
    }
  }
  // A complex state in memory to a row of parts, and back; `sign` multiplies imaginary parts.
  void load(const float* from, float sign, float* row) const {
    for (int64_t u = 0; u < in_.units; ++u) {
      row[u] = from[2 * u];
      row[width_ + u] = sign * from[2 * u + 1];
    }
  }
  void store(const float* row, float sign, float* to) const {
    for (int64_t u = 0; u < in_.units; ++u) {
      to[2 * u] = row[u];
      to[2 * u + 1] = sign * row[width_ + u];
    }
  }
};

class LayerForward : LayerWorker {
 public:
  LayerForward(const LayerInputs& in, const LayerWeights& weights)
      : LayerWorker(in, weights), y_(in.chunk, in.units) {}

  void run(int64_t sequence, const float* first, const LayerOutputs& out) {
    const int64_t d = in_.units, pitch = h_.pitch();
    load(first + sequence * 2 * d, 1, h_.row(0));
    for (int64_t c = 0, t0 = 0; t0 < in_.length; ++c, t0 += in_.chunk) {
      const int64_t n = std::min(in_.chunk, in_.length - t0);
      if (out.checkpoints) {
        float* to = out.checkpoints + (sequence * in_.chunks() + c) * 2 * d;
        for (int part = 0; part < 2; ++part) copy(h_.row(0) + part * width_, d, to + part * d);
      }
      LayerWorker::run(sequence, t0, n);
      multiply(n, width_, 2 * width_, {h_.row(1), pitch, 1}, weights_.mix.row(0), width_, false,
               y_.row(0), width_);
      multiply(n, width_, in_.inputs, {x_of(sequence, t0), in_.inputs, 1}, weights_.skip.row(0),
               width_, true, y_.row(0), width_);
      y_.get(out.y + (sequence * in_.length + t0) * d, n, d, d);
      copy(h_.row(n), pitch, h_.row(0));
    }
    store(h_.row(0), 1, out.last + sequence * 2 * d);
  }

 private:
  Matrix y_;
};

// The transposes of a group's weights.
struct LayerTransposes {
  Matrix project, mix, skip;
  explicit LayerTransposes(const LayerWeights& weights)
      : project(weights.project.transposed()), mix(weights.mix.transposed()),
        skip(weights.skip.transposed()) {}
};

// The gradients of the weights, summed over the sequences of a task.
struct LayerSums {
  Matrix project, parameters, mix, skip;

  explicit LayerSums(const LayerInputs& in)
      : project(in.inputs, 2 * padded(in.units)), parameters(3, in.units),
        mix(2 * padded(in.units), in.units), skip(in.inputs, in.units) {}
  void add(const LayerSums& other) {
    project.add(other.project);
    parameters.add(other.parameters);
    mix.add(other.mix);
    skip.add(other.skip);
  }
};

class LayerBackward : LayerWorker {
 public:
  LayerBackward(const LayerInputs& in, const LayerWeights& weights, const LayerTransposes& turned,
                LayerSums& sums)
      : LayerWorker(in, weights), turned_(turned), sums_(sums), dy_(in.chunk, in.units), g_(in.chunk, 2 * width_), dx_(in.chunk, in.inputs),
        carry_(1, 2 * width_) {}

  void run(int64_t sequence, const LayerCotangents& given, const LayerGradients& out) {
    const int64_t d = in_.units, m = in_.inputs, pitch = h_.pitch();
    load(given.last + sequence * 2 * d, -1, carry_.row(0));
    for (int64_t c = in_.chunks() - 1; c >= 0; --c) {
      const int64_t t0 = c * in_.chunk, n = std::min(in_.chunk, in_.length - t0);
      const float* before = given.checkpoints + (sequence * in_.chunks() + c) * 2 * d;
      for (int part = 0; part < 2; ++part) copy(before + part * d, d, h_.row(0) + part * width_);
      LayerWorker::run(sequence, t0, n);
      const Left x{x_of(sequence, t0), m, 1}, of_x{x.data, 1, m};
      dy_.put(given.y + (sequence * in_.length + t0) * d, n, d, d);
      const Left dy{dy_.row(0), width_, 1};
      multiply(n, pitch, d, dy, turned_.mix.row(0), turned_.mix.pitch(), false, g_.row(0), pitch);
      run_backwards(sequence, t0, n);
      const int64_t inputs = dx_.pitch();
      multiply(n, inputs, pitch, {p_.row(0), pitch, 1}, turned_.project.row(0), inputs, false,
               dx_.row(0), inputs);
      multiply(n, inputs, d, dy, turned_.skip.row(0), inputs, true, dx_.row(0), inputs);
      dx_.get(out.x + (sequence * in_.length + t0) * m, n, m, m);
      multiply(m, pitch, n, of_x, p_.row(0), pitch, true, sums_.project.row(0), pitch);
      multiply(pitch, width_, n, {h_.row(1), 1, pitch}, dy_.row(0), width_, true,
               sums_.mix.row(0), width_);
      multiply(m, width_, n, of_x, dy_.row(0), width_, true, sums_.skip.row(0), width_);
    }
    store(carry_.row(0), -1, out.first + sequence * 2 * d);
  }

 private:
  const LayerTransposes& turned_;
  LayerSums& sums_;
  Matrix dy_, g_, dx_, carry_;  // cotangents of outputs, of states; gradients; of the state after

  // From the cotangents of the states to those of the projections, in their place.
  void run_backwards(int64_t sequence, int64_t t0, int64_t n) {
    for (int64_t u = 0; u < width_; u += kWidth) {
      V q[3], dq[3], g[2];
      parameters(u, q);
      for (int j = 0; j < 3; ++j) dq[j] = get<V>(sums_.parameters.row(j) + u);
      for (int part = 0; part < 2; ++part) g[part] = get<V>(carry_.row(0) + part * width_ + u);
      for (int64_t i = n - 1; i >= 0; --i) {
        V p[2], a[2], d[2], h[2], da[2], dd[2], dp[2] = {};
        for (int part = 0; part < 2; ++part) {
          p[part] = get<V>(p_.row(i) + part * width_ + u);
          h[part] = get<V>(h_.row(i) + part * width_ + u);
          g[part] += get<V>(g_.row(i) + part * width_ + u);
        }
        if (!beyond(sequence, t0 + i)) {
          const bool reset = resets(sequence, t0 + i);
          Lru::gate(p, q, V{}, a, d);
          if (reset) a[0] = a[1] = V{};
          Lru::retreat(a, h, g, da, dd);
          if (reset) da[0] = da[1] = V{};
          Lru::gradient(p, q, V{}, da, dd, dp, dq);
        }
        for (int part = 0; part < 2; ++part) put(p_.row(i) + part * width_ + u, dp[part]);
      }
      for (int j = 0; j < 3; ++j) put(sums_.parameters.row(j) + u, dq[j]);
      for (int part = 0; part < 2; ++part) put(carry_.row(0) + part * width_ + u, g[part]);
    }
  }
};

// A task: some sequences of a group. Calls f(sequence), counted over all groups, for each.
struct LayerShare {
  int64_t group, part;

  LayerShare(const LayerInputs& in, int64_t task)
      : group(task / in.parts()), part(task % in.parts()) {}
  template <class F>
  void each(const LayerInputs& in, F&& f) const {
    const int64_t begin = in.batch * part / in.parts(), end = in.batch * (part + 1) / in.parts();
    for (int64_t s = begin; s < end; ++s) f(group * in.batch + s);
  }
};

inline void layer_forward(const LayerInputs& in, const float* first, const LayerOutputs& out,
                          const Runner& run) {
  run(in.groups * in.parts(), [&](int64_t task) {
    const LayerShare share(in, task);
    const LayerWeights weights(in, share.group);
    LayerForward worker(in, weights);
    share.each(in, [&](int64_t s) { worker.run(s, first, out); });
  });
}

inline void layer_backward(const LayerInputs& in, const LayerCotangents& given,
                           const LayerGradients& out, const Runner& run) {
  const int64_t m = in.inputs, d = in.units, width = padded(d), parts = in.parts();
  std::vector<std::unique_ptr<LayerSums>> sums(in.groups * parts);
  run(in.groups * parts, [&](int64_t task) {
    const LayerShare share(in, task);
    const LayerWeights weights(in, share.group);
    const LayerTransposes turned(weights);
    sums[task].reset(new LayerSums(in));
    LayerBackward worker(in, weights, turned, *sums[task]);
    share.each(in, [&](int64_t s) { worker.run(s, given, out); });
  });
  run(in.groups, [&](int64_t group) {
    LayerSums& total = *sums[group * parts];
    for (int64_t part = 1; part < parts; ++part) total.add(*sums[group * parts + part]);
    for (int64_t part = 0; part < 2; ++part) {
      total.project.get(out.project + group * m * 2 * d + part * d, m, d, 2 * d, part * width);
      for (int64_t i = 0; i < d; ++i) {
        copy(total.mix.row(part * width + i), d, out.mix + ((group * 2 + part) * d + i) * d);
      }
    }
    total.parameters.get(out.parameters + group * 3 * d, 3, d, d);
    total.skip.get(out.skip + group * m * d, m, d, d);
  });
}

}  // namespace persistor
