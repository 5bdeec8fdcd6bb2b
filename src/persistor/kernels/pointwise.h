// Layers that act on each row by itself, forward and backward, each in one pass over memory.
//
// Arrays are (groups, rows, width); the rows of a group share a layer's parameters. A task is a
// block of rows. What is summed over rows is summed block by block and then in the order of the
// blocks: the number of threads does not change a bit.

#pragma once

#include <cmath>

#include "vectors.h"

namespace persistor {

constexpr int64_t kBlock = 64;  // rows of a task

struct Batched {
  int64_t groups, rows, width;

  int64_t blocks() const { return (rows + kBlock - 1) / kBlock; }
  // Calls f(group, row, block) for every row; a block's rows one after the other.
  template <class F>
  void each(const Runner& run, F&& f) const {
    run(groups * blocks(), [&](int64_t block) {
      const int64_t group = block / blocks(), first = block % blocks() * kBlock;
      for (int64_t i = first; i < std::min(rows, first + kBlock); ++i) f(group, group * rows + i, block);
    });
  }
  // The sums of the blocks, `size` numbers each, added up into those of the groups.
  void add_up(const std::vector<float>& partial, int64_t size, int64_t from, int64_t n,
              float* to) const {
    fill(to, groups * n, 0);
    for (int64_t block = 0; block < groups * blocks(); ++block) {
      float* sum = to + block / blocks() * n;
      over(n, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
        add(sum + u, get<decltype(type)>(partial.data() + block * size + from + u));
      });
    }
  }
};

PERSISTOR_INLINE Four sigmoid(Four x) {
  const V y = sigmoid(V{x[0], x[1], x[2], x[3]});
  return Four{y[0], y[1], y[2], y[3]};
}
PERSISTOR_INLINE float sigmoid(float x) { return sigmoid(all(x))[0]; }

// ---------------------------------------------------------------------------------------------
// LayerNorm(x) = scale * (x - mean) / sqrt(variance + epsilon) + shift

struct Moments {
  float mean, precision;  // precision: 1 / sqrt(variance + epsilon)

  Moments(const float* x, int64_t width, float epsilon) {
    Total sum, squares;
    over(width, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      sum.add(get<decltype(type)>(x + u));
    });
    mean = sum.value() / width;
    over(width, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      const auto centred = get<decltype(type)>(x + u) - mean;
      squares.add(centred * centred);
    });
    precision = 1.0f / std::sqrt(squares.value() / width + epsilon);
  }
};

inline void norm(const Batched& shape, const float* x, const float* scale, const float* shift,
                 float epsilon, float* y, const Runner& run) {
  const int64_t width = shape.width;
  shape.each(run, [&](int64_t group, int64_t row, int64_t) {
    const float *from = x + row * width, *by = scale + group * width, *plus = shift + group * width;
    float* to = y + row * width;
    const Moments at(from, width, epsilon);
    over(width, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      using T = decltype(type);
      const T normed = (get<T>(from + u) - at.mean) * at.precision;
      put(to + u, normed * get<T>(by + u) + get<T>(plus + u));
    });
  });
}

// The moments are computed again: the row is in the cache then.
inline void norm_gradient(const Batched& shape, const float* x, const float* scale, const float* dy,
                          float epsilon, float* dx, float* dscale, float* dshift,
                          const Runner& run) {
  const int64_t width = shape.width;
  std::vector<float> sums(shape.groups * shape.blocks() * 2 * width);
  shape.each(run, [&](int64_t group, int64_t row, int64_t block) {
    const float *from = x + row * width, *by = scale + group * width, *given = dy + row * width;
    float *to = dx + row * width, *of_scale = sums.data() + block * 2 * width;
    float* of_shift = of_scale + width;
    const Moments at(from, width, epsilon);
    Total along_one, along_x;
    over(width, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      using T = decltype(type);
      const T normed = (get<T>(from + u) - at.mean) * at.precision, g = get<T>(given + u);
      const T scaled = g * get<T>(by + u);
      along_one.add(scaled);
      along_x.add(scaled * normed);
      add(of_scale + u, g * normed);
      add(of_shift + u, g);
    });
    const float one = along_one.value() / width, other = along_x.value() / width;
    over(width, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      using T = decltype(type);
      const T normed = (get<T>(from + u) - at.mean) * at.precision;
      put(to + u, at.precision * (get<T>(given + u) * get<T>(by + u) - one - normed * other));
    });
  });
  shape.add_up(sums, 2 * width, 0, width, dscale);
  shape.add_up(sums, 2 * width, width, width, dshift);
}

// ---------------------------------------------------------------------------------------------
// GLU(x + bias) = a * sigmoid(b), with a and b the halves of a row; `width` is that of a half

inline void glu(const Batched& shape, const float* x, const float* bias, float* y,
                const Runner& run) {
  const int64_t width = shape.width;
  shape.each(run, [&](int64_t group, int64_t row, int64_t) {
    const float *from = x + row * 2 * width, *plus = bias + group * 2 * width;
    float* to = y + row * width;
    over(width, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      using T = decltype(type);
      const T a = get<T>(from + u) + get<T>(plus + u);
      const T b = get<T>(from + width + u) + get<T>(plus + width + u);
      put<T>(to + u, a * sigmoid(b));
    });
  });
}

inline void glu_gradient(const Batched& shape, const float* x, const float* bias, const float* dy,
                         float* dx, float* dbias, const Runner& run) {
  const int64_t width = shape.width;
  std::vector<float> sums(shape.groups * shape.blocks() * 2 * width);
  shape.each(run, [&](int64_t group, int64_t row, int64_t block) {
    const float *from = x + row * 2 * width, *plus = bias + group * 2 * width;
    const float* given = dy + row * width;
    float *to = dx + row * 2 * width, *sum = sums.data() + block * 2 * width;
    over(width, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      using T = decltype(type);
      const T a = get<T>(from + u) + get<T>(plus + u), g = get<T>(given + u);
      const T open = sigmoid(get<T>(from + width + u) + get<T>(plus + width + u));
      const T da = g * open, db = da * a * (1.0f - open);
      put<T>(to + u, da);
      put<T>(to + width + u, db);
      add<T>(sum + u, da);
      add<T>(sum + width + u, db);
    });
  });
  shape.add_up(sums, 2 * width, 0, 2 * width, dbias);
}

}  // namespace persistor
