// How the work of a call is divided, by shapes alone, and the memory that a worker has.

#pragma once

#include "inputs.h"

namespace persistor {

constexpr int64_t kLanes = 32;                 // lanes of a strip, at most
constexpr int64_t kVectors = kLanes / kWidth;  // vectors of a strip, at most
constexpr int64_t kParts = 8;                  // parts of a batch, about

// Calls f with the number of vectors of a strip as a constant.
template <int N = 1, class F>
PERSISTOR_INLINE void with_vectors(int64_t vectors, F&& f) {
  if constexpr (N < kVectors) {
    if (vectors != N) return with_vectors<N + 1>(vectors, f);
  }
  f(std::integral_constant<int, N>());
}

struct Division {
  int64_t blocks, width;    // of the units
  int64_t together;         // blocks that one task takes by turns
  int64_t parts, per_part;  // of the sequences of a group
  int64_t count;            // sequences side by side in a strip
  bool lookup;              // gates once per value and position

  explicit Division(const Inputs& in) {
    blocks = (in.units + kLanes - 1) / kLanes;
    width = (in.units + blocks - 1) / blocks;
    if (blocks > 1) width = (width + kWidth - 1) / kWidth * kWidth;
    count = std::max<int64_t>(1, kLanes / width);
    parts = std::min(kParts, std::max<int64_t>(1, in.batch / 8));
    if (in.dense) parts = std::min(2 * kParts, (in.batch + count - 1) / count);
    const int64_t worthwhile = in.ids ? in.batch / (2 * in.values) : 0;
    lookup = worthwhile > 1;
    if (lookup) parts = std::min(parts, worthwhile);
    per_part = (in.batch + parts - 1) / parts;
    together = in.dense && in.groups * parts >= kParts ? blocks : 1;
  }
  int64_t split() const { return blocks / together; }
  int64_t tasks(const Inputs& in) const { return in.groups * parts * split(); }
};

// What one worker does: some sequences of a group, some units.
struct Share {
  int64_t group, part, block, begin, end, unit, width;

  Share(const Inputs& in, const Division& by, int64_t task, int64_t turn)
      : group(task / (by.parts * by.split())), part(task / by.split() % by.parts),
        block(task % by.split() * by.together + turn),
        begin(std::min(in.batch, part * by.per_part)),
        end(std::min(in.batch, begin + by.per_part)), unit(block * by.width),
        width(std::min(by.width, in.units - unit)) {}
};

// Neighbours side by side in the lanes: `count` sequences (or values, for a lookup), `width` units.
struct Strip {
  int64_t first, count, width, vectors;

  Strip(int64_t first, int64_t end, int64_t width, const Division& by)
      : first(first), count(std::min(end - first, by.count)), width(width),
        vectors((count * width + kWidth - 1) / kWidth) {}
};

// Memory: zeroed, aligned vectors; row i of a strip's array has kVectors vectors

class Rows {
 public:
  explicit Rows(int64_t rows) : data_(allocate(rows * kVectors)) {}
  V* operator[](int64_t row) { return data_.get() + row * kVectors; }
  float* lanes(int64_t row) { return reinterpret_cast<float*>((*this)[row]); }
  const float* lanes(int64_t row) const {
    return reinterpret_cast<const float*>(data_.get() + row * kVectors);
  }

 private:
  struct Free {
    void operator()(V* p) const { std::free(p); }
  };
  static V* allocate(int64_t vectors) {
    const size_t bytes = std::max<int64_t>(1, vectors) * sizeof(V);
    void* p = std::aligned_alloc(alignof(V), bytes);
    if (!p) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    return static_cast<V*>(p);
  }
  std::unique_ptr<V, Free> data_;
};

}  // namespace persistor
