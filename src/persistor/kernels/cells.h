// Cells: projections p[] and parameters q[] to the transition a[] and d[]. `gradient` sets dp[] and
// adds to dq[]. What is costly in both is computed by `costly` and handed to them, so that it can be
// kept.

#pragma once

#include "transitions.h"

namespace persistor {

// The derivative used in place of Heaviside's, 1 / (1 + (pi x)^2), at two places, by one division.
struct Slopes {
  V one, other;

  PERSISTOR_INLINE Slopes(V x, V y) {
    const V a = steepness(x), b = steepness(y), both = 1.0f / (a * b);
    one = both * b;
    other = both * a;
  }

 private:
  static PERSISTOR_INLINE V steepness(V x) {  // no more than a product can hold
    const V y = x * 3.14159265358979f, found = 1.0f + y * y, most = all(1e18f);
    return choose(found < most, found, most);
  }
};

// The part that all cells with a threshold share; BMRU is CMRU with epsilon = 0.
struct Hysteresis {
  V candidate, threshold, margin;
  Mask updates;

  PERSISTOR_INLINE Hysteresis(V candidate, V threshold)
      : candidate(candidate), threshold(threshold),
        margin(absolute(candidate) - absolute(threshold)), updates(margin >= all(0)) {}

  PERSISTOR_INLINE V decay(V epsilon) const { return choose(updates, epsilon, all(1)); }
  PERSISTOR_INLINE V if_updates(V x) const { return choose(updates, x, all(0)); }
  PERSISTOR_INLINE V times_sign(V x) const { return choose(candidate >= all(0), x, -x); }

  // From the derivatives with respect to decay and drive = z * S(candidate) * scale.
  PERSISTOR_INLINE void gradient(V scale, V epsilon, V da, V dd, V* dp) const {
    const V dz = da * (epsilon - 1.0f) + times_sign(dd * scale);
    const Slopes slope(margin, candidate);
    const V dmargin = dz * slope.one;
    const V dsign = if_updates(dd * scale);
    dp[0] = along(dmargin, candidate) + dsign * 2.0f * slope.other;
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

}  // namespace persistor
