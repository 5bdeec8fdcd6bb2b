// Products of small matrices that stay in the cache: tiles of the result live in registers.

#pragma once

#include "vectors.h"

namespace persistor {

constexpr int64_t padded(int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

// A zeroed, aligned matrix whose rows are whole vectors.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns)
      : rows_(rows), pitch_(padded(columns)), data_(allocate(rows * pitch_)) {}

  int64_t pitch() const { return pitch_; }
  float* row(int64_t i) { return data_.get() + i * pitch_; }
  const float* row(int64_t i) const { return data_.get() + i * pitch_; }
  void add(const Matrix& other) {
    for (int64_t i = 0; i < rows_ * pitch_; ++i) data_.get()[i] += other.data_.get()[i];
  }

  // Copies rows of `columns` numbers, `step` apart, to columns from `at` on; and back.
  void put(const float* from, int64_t rows, int64_t columns, int64_t step, int64_t at = 0) {
    for (int64_t i = 0; i < rows; ++i) copy(from + i * step, columns, row(i) + at);
  }
  void get(float* to, int64_t rows, int64_t columns, int64_t step, int64_t at = 0) const {
    for (int64_t i = 0; i < rows; ++i) copy(row(i) + at, columns, to + i * step);
  }
  Matrix transposed() const {
    Matrix turned(pitch_, rows_);
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < pitch_; ++j) turned.row(j)[i] = row(i)[j];
    }
    return turned;
  }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  static float* allocate(int64_t count) {
    const size_t bytes = std::max<int64_t>(kWidth, count) * sizeof(float);
    void* p = std::aligned_alloc(kWidth * sizeof(float), bytes);
    if (!p) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    return static_cast<float*>(p);
  }
  int64_t rows_, pitch_;
  std::unique_ptr<float, Free> data_;
};

// The left factor, or its transpose: entry (row, k) is data[row * by_row + k * by_depth].
struct Left {
  const float* data;
  int64_t by_row, by_depth;
};

constexpr int kTileRows = 6, kTileVectors = kWidth == 16 ? 4 : 2;

template <int R, int N>
void tile(const Left& left, const float* right, int64_t step, int64_t depth, bool add, float* to,
          int64_t pitch) {
  V sum[R][N];
  PERSISTOR_UNROLL_ALL for (int r = 0; r < R; ++r) {
    PERSISTOR_UNROLL_ALL for (int v = 0; v < N; ++v) {
      sum[r][v] = add ? get<V>(to + r * pitch + v * kWidth) : V{};
    }
  }
  const float* a = left.data;
  for (int64_t k = 0; k < depth; ++k, a += left.by_depth, right += step) {
    V b[N];
    PERSISTOR_UNROLL_ALL for (int v = 0; v < N; ++v) b[v] = get<V>(right + v * kWidth);
    PERSISTOR_UNROLL_ALL for (int r = 0; r < R; ++r) {
      const V x = all(a[r * left.by_row]);
      PERSISTOR_UNROLL_ALL for (int v = 0; v < N; ++v) sum[r][v] += x * b[v];
    }
  }
  PERSISTOR_UNROLL_ALL for (int r = 0; r < R; ++r) {
    PERSISTOR_UNROLL_ALL for (int v = 0; v < N; ++v) put(to + r * pitch + v * kWidth, sum[r][v]);
  }
}

template <int N, int R = 1>
void tile_of(int64_t rows, const Left& left, const float* right, int64_t step, int64_t depth,
             bool add, float* to, int64_t pitch) {
  if constexpr (R < kTileRows) {
    if (rows != R) return tile_of<N, R + 1>(rows, left, right, step, depth, add, to, pitch);
  }
  tile<R, N>(left, right, step, depth, add, to, pitch);
}

// to = left * right, or added to it. Rows of `right` are `step` apart, those of `to` `pitch`; all
// columns of `to` are whole vectors.
template <int N = kTileVectors>
void multiply(int64_t rows, int64_t columns, int64_t depth, Left left, const float* right,
              int64_t step, bool add, float* to, int64_t pitch) {
  int64_t c = 0;
  for (; c + N * kWidth <= columns; c += N * kWidth) {
    Left block = left;
    for (int64_t r = 0; r < rows; r += kTileRows, block.data += kTileRows * left.by_row) {
      tile_of<N>(std::min<int64_t>(kTileRows, rows - r), block, right + c, step, depth, add,
                 to + r * pitch + c, pitch);
    }
  }
  if constexpr (N > 1) {
    if (c < columns) {
      multiply<N - 1>(rows, columns - c, depth, left, right + c, step, add, to + c, pitch);
    }
  }
}

}  // namespace persistor
