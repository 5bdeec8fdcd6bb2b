// AdamW on gradients that are clipped to a global norm: one pass over the gradients for their norm,
// then one over gradients, weights and moments.
//
// Leaves are cut into pieces, whatever the threads, and what the pieces add up to is added in their
// order: the number of threads does not change a bit.

#pragma once

#include <cmath>

#include "vectors.h"

namespace persistor {

constexpr int64_t kPiece = 16384;  // numbers of a task

struct AdamW {
  float clip, first_decay, second_decay, epsilon, weight_decay;
};

// One array of parameters. The results may be in the memory of what they replace.
struct Leaf {
  int64_t size;
  float rate;  // how much of an update is taken away
  const float *gradient, *weight, *first, *second;
  float *new_weight, *new_first, *new_second;
};

PERSISTOR_INLINE float root(float x) { return std::sqrt(x); }
template <class T>
PERSISTOR_INLINE T root(T x) {
  for (size_t i = 0; i < sizeof x / sizeof x[0]; ++i) x[i] = std::sqrt(x[i]);
  return x;
}

// `count` is the number of this step, from 1.
inline void adamw(const std::vector<Leaf>& leaves, const AdamW& by, int64_t count,
                  const Runner& run) {
  struct Piece {
    const Leaf& leaf;
    int64_t begin, size;
  };
  std::vector<Piece> pieces;
  for (const Leaf& leaf : leaves) {
    for (int64_t begin = 0; begin < leaf.size; begin += kPiece) {
      pieces.push_back({leaf, begin, std::min(kPiece, leaf.size - begin)});
    }
  }
  const int64_t tasks = pieces.size();

  std::vector<float> squares(tasks);
  run(tasks, [&](int64_t task) {
    const Piece& piece = pieces[task];
    const float* gradient = piece.leaf.gradient + piece.begin;
    Total sum;
    over(piece.size, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      const auto g = get<decltype(type)>(gradient + u);
      sum.add(g * g);
    });
    squares[task] = sum.value();
  });
  double total = 0;
  for (const float square : squares) total += square;
  const float norm = static_cast<float>(std::sqrt(total));
  const float scale = norm < by.clip ? 1.0f : by.clip / norm;  // not a number, if the norm is none

  const float first_share = 1.0f - by.first_decay, second_share = 1.0f - by.second_decay;
  const auto correction = [&](float decay) {
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(decay), count)));
  };
  const float of_first = correction(by.first_decay), of_second = correction(by.second_decay);
  run(tasks, [&](int64_t task) {
    const auto& [leaf, begin, size] = pieces[task];
    const float *gradient = leaf.gradient + begin, *weight = leaf.weight + begin;
    const float *first = leaf.first + begin, *second = leaf.second + begin;
    float *new_weight = leaf.new_weight + begin, *new_first = leaf.new_first + begin;
    float *new_second = leaf.new_second + begin, rate = leaf.rate;
    over(size, [&](auto type, int64_t u) PERSISTOR_LAMBDA {
      using T = decltype(type);
      const T g = get<T>(gradient + u) * scale, w = get<T>(weight + u);
      const T m = get<T>(first + u) * by.first_decay + g * first_share;
      const T v = get<T>(second + u) * by.second_decay + g * g * second_share;
      const T step = m * of_first / (root(v * of_second) + by.epsilon);
      put<T>(new_first + u, m);
      put<T>(new_second + u, v);
      put<T>(new_weight + u, w - rate * (step + by.weight_decay * w));
    });
  });
}

}  // namespace persistor
