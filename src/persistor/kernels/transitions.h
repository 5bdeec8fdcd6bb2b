// Transitions: one step of the state, from a[] (decay) and d[] (drive), one entry a part of the
// state (two for complex states), and the cell's parameters q[]. Backwards: from the derivative g
// with respect to the state after it, those with respect to decay and drive, and (in g) to the
// state h before it.

#pragma once

#include "vectors.h"

namespace persistor {

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

// Lanes of two vectors: every other one; and both by turns, from the first halves and the second.
#if defined(__AVX512F__)
#define PERSISTOR_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define PERSISTOR_ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define PERSISTOR_EARLY 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define PERSISTOR_LATE 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#else
#define PERSISTOR_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define PERSISTOR_ODD 1, 3, 5, 7, 9, 11, 13, 15
#define PERSISTOR_EARLY 0, 8, 1, 9, 2, 10, 3, 11
#define PERSISTOR_LATE 4, 12, 5, 13, 6, 14, 7, 15
#endif

// The states of a vector in memory, real and imaginary parts by turns if S is 2; `sign` multiplies the latter.
template <int S>
PERSISTOR_INLINE void get_state(const float* from, V* h, float sign) {
  if constexpr (S == 1) {
    h[0] = get<V>(from);
  } else {
    const V one = get<V>(from), two = get<V>(from + kWidth);
    h[0] = __builtin_shufflevector(one, two, PERSISTOR_EVEN);
    h[1] = sign * __builtin_shufflevector(one, two, PERSISTOR_ODD);
  }
}
template <int S>
PERSISTOR_INLINE void put_state(float* to, const V* h, float sign) {
  if constexpr (S == 1) {
    put(to, h[0]);
  } else {
    const V one = h[0], two = sign * h[1];
    put(to, __builtin_shufflevector(one, two, PERSISTOR_EARLY));
    put(to + kWidth, __builtin_shufflevector(one, two, PERSISTOR_LATE));
  }
}

}  // namespace persistor
