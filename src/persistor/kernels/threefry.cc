// The random words of `jax.random`: Threefry-2x32 (Salmon et al., 2011), as a function that XLA can
// call.
//
// Row i of the results is what key i makes of the pairs (0, first_i), (0, first_i + 1), ...

#include "calls.h"

namespace persistor {
namespace {

using Words = ffi::Buffer<ffi::U32>;

constexpr int64_t kWords = 1 << 12;  // pairs of a task, at least
constexpr int kTurns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
constexpr uint32_t kParity = 0x1BD11BDA;

void threefry(const uint32_t* key, uint32_t first, int64_t count, uint32_t* xs, uint32_t* ys) {
  const uint32_t schedule[] = {key[0], key[1], key[0] ^ key[1] ^ kParity};
  for (int64_t i = 0; i < count; ++i) {
    uint32_t x = schedule[0], y = first + static_cast<uint32_t>(i) + schedule[1];
    for (uint32_t group = 0; group < 5; ++group) {
      for (const int turn : kTurns[group % 2]) {
        x += y;
        y = (y << turn | y >> (32 - turn)) ^ x;
      }
      x += schedule[(group + 1) % 3];
      y += schedule[(group + 2) % 3] + group + 1;
    }
    xs[i] = x;
    ys[i] = y;
  }
}

ffi::Error run_threefry(ffi::ThreadPool pool, Words keys, Words first, ffi::Result<Words> xs,
                        ffi::Result<Words> ys) {
  Check check;
  const int64_t rows = first.element_count();
  const int64_t count = rows ? xs->element_count() / rows : 0;
  check(static_cast<int64_t>(keys.element_count()) == 2 * rows, "wrong keys");
  check(xs->element_count() == ys->element_count(), "wrong results");
  check(static_cast<int64_t>(xs->element_count()) == rows * count, "wrong number of words");
  if (check.failed()) return check.error();
  const int64_t of_task = std::max<int64_t>(1, kWords / std::max<int64_t>(1, count));
  return attempt([&] {
    runner(pool)((rows + of_task - 1) / of_task, [&](int64_t task) {
      for (int64_t i = task * of_task; i < std::min(rows, (task + 1) * of_task); ++i) {
        threefry(keys.typed_data() + 2 * i, first.typed_data()[i], count,
                 xs->typed_data() + i * count, ys->typed_data() + i * count);
      }
    });
  });
}

}  // namespace
}  // namespace persistor

XLA_FFI_DEFINE_HANDLER_SYMBOL(threefry, persistor::run_threefry,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<persistor::Words>()  // keys
                                  .Arg<persistor::Words>()  // first
                                  .Ret<persistor::Words>()
                                  .Ret<persistor::Words>());
