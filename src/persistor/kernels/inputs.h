// What a call of a recurrence is given.

#pragma once

#include "vectors.h"

namespace persistor {

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
  int64_t groups, batch, length, units, values, chunk;
  const float* dense = nullptr;      // (groups, batch, length, p), or null
  Shared rows, offsets, gain, shift; // (values, p), (length, p), (values, length), (p)
  Shared parameters;                 // (q, units)
  const int32_t* ids = nullptr;      // (groups, batch, length) where there are rows
  const int32_t* lengths = nullptr;  // (groups, batch), or null
  const bool* resets = nullptr;      // (groups, batch, length), or null

  int64_t chunks() const { return (length + chunk - 1) / chunk; }
  bool ids_in_range() const {
    if (!ids) return true;
    bool inside = true;
    for (int64_t i = 0; i < groups * batch * length; ++i) {
      inside &= static_cast<uint32_t>(ids[i]) < static_cast<uint64_t>(values);
    }
    return inside;
  }
};

}  // namespace persistor
