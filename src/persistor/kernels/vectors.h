// Vectors of eight or sixteen floats, and who runs tasks.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace persistor {

#if defined(__AVX512F__)
constexpr int64_t kWidth = 16;  // lanes of a vector
#else
constexpr int64_t kWidth = 8;
#endif

typedef float V __attribute__((vector_size(4 * kWidth)));
typedef int32_t Mask __attribute__((vector_size(4 * kWidth)));

#define PERSISTOR_INLINE inline __attribute__((always_inline))
#define PERSISTOR_LAMBDA __attribute__((always_inline))
#if defined(__clang__)
#define PERSISTOR_UNROLL _Pragma("clang loop unroll(full)")
#define PERSISTOR_UNROLL_ALL _Pragma("clang loop unroll(full)")
#else
#define PERSISTOR_UNROLL _Pragma("GCC unroll 4")
#define PERSISTOR_UNROLL_ALL _Pragma("GCC unroll 8")
#endif

PERSISTOR_INLINE V all(float x) { return x - V{}; }
PERSISTOR_INLINE V choose(Mask mask, V yes, V no) { return mask ? yes : no; }
PERSISTOR_INLINE V absolute(V x) { return (V)((Mask)x & 0x7fffffff); }

// x * sign(at), and 0 where `at` is 0: the derivative of |at|.
PERSISTOR_INLINE V along(V x, V at) {
  return choose(at != all(0), (V)((Mask)x ^ ((Mask)at & INT32_MIN)), all(0));
}

// Arrays of any alignment: `over(n, f)` calls f(T, u) so that f handles the elements u, u + 1, ..
// as many as a T has, with `get` and `put`; those of a vector, four or one at a time.
typedef float Four __attribute__((vector_size(16)));

template <class T>
PERSISTOR_INLINE T get(const float* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
template <class T>
PERSISTOR_INLINE void put(float* to, T x) {
  std::memcpy(to, &x, sizeof x);
}
template <class T>
PERSISTOR_INLINE void add(float* to, T x) {
  put(to, get<T>(to) + x);
}
template <class F>
PERSISTOR_INLINE void over(int64_t n, F&& f) {
  int64_t u = 0;
  for (; u + kWidth <= n; u += kWidth) f(V{}, u);
  for (; u + 4 <= n; u += 4) f(Four{}, u);
  for (; u < n; ++u) f(0.0f, u);
}
// Calls f with the width, as a constant where it is a common one, so that its loops are unrolled.
template <class F>
PERSISTOR_INLINE void with_width(int64_t width, F&& f) {
  switch (width) {
    case 1: return f(std::integral_constant<int64_t, 1>());
    case 4: return f(std::integral_constant<int64_t, 4>());
    case 8: return f(std::integral_constant<int64_t, 8>());
    case 16: return f(std::integral_constant<int64_t, 16>());
    case 32: return f(std::integral_constant<int64_t, 32>());
    default: return f(width);
  }
}
// A sum of vectors of any kind, added up across their lanes at the end.
struct Total {
  V many = {};
  Four four = {};
  float one = 0;

  PERSISTOR_INLINE void add(V x) { many += x; }
  PERSISTOR_INLINE void add(Four x) { four += x; }
  PERSISTOR_INLINE void add(float x) { one += x; }
  PERSISTOR_INLINE float value() const {
    Four parts[kWidth / 4], sum = four;
    std::memcpy(parts, &many, sizeof many);
    for (const Four& part : parts) sum += part;
    return one + ((sum[0] + sum[2]) + (sum[1] + sum[3]));
  }
};
PERSISTOR_INLINE void copy(const float* from, int64_t n, float* to) {
  over(n, [&](auto type, int64_t u) { put(to + u, get<decltype(type)>(from + u)); });
}
PERSISTOR_INLINE void fill(float* to, int64_t n, float x) {
  over(n, [&](auto type, int64_t u) { put(to + u, type + x); });
}

// A vector of fours side by side, and back.
constexpr int kFours = kWidth / 4;
typedef float Eight __attribute__((vector_size(32)));

PERSISTOR_INLINE Eight pair(Four a, Four b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}
PERSISTOR_INLINE V side_by_side(const Four* x) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(pair(x[0], x[1]), pair(x[2], x[3]), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                 10, 11, 12, 13, 14, 15);
#else
  return pair(x[0], x[1]);
#endif
}
PERSISTOR_INLINE V repeated(Four x) {
  Four fours[kFours];
  for (Four& four : fours) four = x;
  return side_by_side(fours);
}
PERSISTOR_INLINE Four total_of_fours(V x) {
  Four fours[kFours], sum = {};
  std::memcpy(fours, &x, sizeof x);
  for (const Four& four : fours) sum += four;
  return sum;
}

// 1 / (1 + exp(-x)), to about 1e-7: exp(r) by its series on |r| <= ln(2) / 2, times a power of two.
PERSISTOR_INLINE V sigmoid(V x) {
  const V low = all(-87.0f), high = all(87.0f);
  V y = -x;
  y = choose(y < low, low, y);
  y = choose(y > high, high, y);
  const V shifted = y * 1.44269504f + 12582912.0f;  // its last bits are round(y / ln 2)
  const V n = shifted - 12582912.0f;
  const V r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  V e = all(1.0f / 720);
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  const Mask power = ((Mask)shifted << 23) + (127 << 23);
  return 1.0f / (1.0f + e * (V)power);
}

// Runs task 0, 1, ..., tasks - 1 in any order, on any threads, and returns when all are done.
using Runner = std::function<void(int64_t tasks, const std::function<void(int64_t)>& task)>;

}  // namespace persistor
