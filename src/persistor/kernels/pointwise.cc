// The layers of pointwise.h as functions that XLA can call.
//
// Parameters are (.., width) and tables (.., rows, width), with the same leading axes: the groups.

#include "calls.h"
#include "pointwise.h"

namespace persistor {
namespace {

// `halves` is how many times as wide as `shape.width` the parameters are.
Batched rows(const Floats& matrix, const Floats& parameters, int64_t halves, Check& check) {
  const auto given = matrix.dimensions(), shared = parameters.dimensions();
  check(present(matrix) && given.size() >= 2 && shared.size() + 1 == given.size(), "wrong ranks");
  if (check.failed()) return {};
  const int64_t rank = shared.size(), width = given[rank];
  check(std::equal(shared.begin(), shared.begin() + rank - 1, given.begin()), "wrong groups");
  check(shared[rank - 1] == width && width % halves == 0, "wrong width");
  int64_t groups = 1;
  for (int64_t i = 0; i + 1 < rank; ++i) groups *= given[i];
  return {groups, given[rank - 1], width / halves};
}

void same(const Floats& a, const Floats& b, const char* what, Check& check) {
  check(a.element_count() == b.element_count(), what);
}

ffi::Error run_norm(ffi::ThreadPool pool, Floats x, Floats scale, Floats shift,
                    ffi::Result<Floats> y, float epsilon) {
  Check check;
  const Batched shape = rows(x, scale, 1, check);
  same(scale, shift, "wrong shift", check);
  same(x, *y, "wrong result", check);
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*y);
    norm(shape, x.typed_data(), scale.typed_data(), shift.typed_data(), epsilon, y->typed_data(),
         runner(pool));
  });
}

ffi::Error run_norm_gradient(ffi::ThreadPool pool, Floats x, Floats scale, Floats dy,
                             ffi::Result<Floats> dx, ffi::Result<Floats> dscale,
                             ffi::Result<Floats> dshift, float epsilon) {
  Check check;
  const Batched shape = rows(x, scale, 1, check);
  same(x, dy, "wrong cotangent", check);
  same(x, *dx, "wrong gradient", check);
  same(scale, *dscale, "wrong gradient of the scale", check);
  same(scale, *dshift, "wrong gradient of the shift", check);
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*dx);
    norm_gradient(shape, x.typed_data(), scale.typed_data(), dy.typed_data(), epsilon,
                  dx->typed_data(), dscale->typed_data(), dshift->typed_data(), runner(pool));
  });
}

ffi::Error run_glu(ffi::ThreadPool pool, Floats x, Floats bias, ffi::Result<Floats> y) {
  Check check;
  const Batched shape = rows(x, bias, 2, check);
  check(x.element_count() == 2 * y->element_count(), "wrong result");
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*y);
    glu(shape, x.typed_data(), bias.typed_data(), y->typed_data(), runner(pool));
  });
}

ffi::Error run_glu_gradient(ffi::ThreadPool pool, Floats x, Floats bias, Floats dy,
                            ffi::Result<Floats> dx, ffi::Result<Floats> dbias) {
  Check check;
  const Batched shape = rows(x, bias, 2, check);
  check(x.element_count() == 2 * dy.element_count(), "wrong cotangent");
  same(x, *dx, "wrong gradient", check);
  same(bias, *dbias, "wrong gradient of the bias", check);
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*dx);
    glu_gradient(shape, x.typed_data(), bias.typed_data(), dy.typed_data(), dx->typed_data(),
                 dbias->typed_data(), runner(pool));
  });
}

}  // namespace
}  // namespace persistor

using xla::ffi::Ffi;
using persistor::Floats;
using Threads = xla::ffi::ThreadPool;

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    norm_forward, persistor::run_norm,
    Ffi::Bind().Ctx<Threads>().Arg<Floats>().Arg<Floats>().Arg<Floats>().Ret<Floats>().Attr<float>(
        "epsilon"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(norm_backward, persistor::run_norm_gradient,
                              Ffi::Bind()
                                  .Ctx<Threads>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Attr<float>("epsilon"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    glu_forward, persistor::run_glu,
    Ffi::Bind().Ctx<Threads>().Arg<Floats>().Arg<Floats>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    glu_backward, persistor::run_glu_gradient,
    Ffi::Bind().Ctx<Threads>().Arg<Floats>().Arg<Floats>().Arg<Floats>().Ret<Floats>().Ret<Floats>());
