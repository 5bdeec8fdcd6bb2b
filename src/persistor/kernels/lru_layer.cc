// The layer of lru_layer.h as functions that XLA can call. Every operand has the same leading axes:
// the groups.

#include "lru_layer.h"

#include "calls.h"

namespace persistor {
namespace {

using Integers = ffi::Buffer<ffi::S32>;
using Truths = ffi::Buffer<ffi::PRED>;
using States = ffi::Buffer<ffi::C64>;

template <class Buffer>
bool ends_in(const Buffer& buffer, int64_t groups, std::initializer_list<int64_t> shape) {
  const auto dimensions = buffer.dimensions();
  int64_t count = groups;
  for (const int64_t n : shape) count *= n;
  return dimensions.size() >= shape.size() &&
         std::equal(shape.begin(), shape.end(), dimensions.end() - shape.size()) &&
         static_cast<int64_t>(buffer.element_count()) == count;
}

LayerInputs inputs(const Floats& x, const Floats& project, const Floats& parameters,
                   const Floats& mix, const Floats& skip, const Integers& lengths,
                   const Truths& resets, int64_t chunk, Check& check) {
  LayerInputs in{};
  const auto given = x.dimensions(), wide = skip.dimensions();
  check(present(x) && given.size() >= 3 && present(skip) && wide.size() >= 2, "wrong ranks");
  check(chunk > 0, "wrong chunk");
  if (check.failed()) return in;
  in.chunk = chunk;
  in.batch = given[given.size() - 3];
  in.length = given[given.size() - 2];
  in.inputs = given[given.size() - 1];
  in.units = wide[wide.size() - 1];
  in.groups = x.element_count() / (in.batch * in.length * in.inputs);
  const int64_t g = in.groups, m = in.inputs, d = in.units;
  check(ends_in(project, g, {m, 2 * d}), "wrong projection");
  check(ends_in(parameters, g, {3, d}), "wrong parameters");
  check(ends_in(mix, g, {2 * d, d}), "wrong mix");
  check(ends_in(skip, g, {m, d}), "wrong skip");
  in.x = x.typed_data();
  in.project = project.typed_data();
  in.parameters = parameters.typed_data();
  in.mix = mix.typed_data();
  in.skip = skip.typed_data();
  if (present(lengths)) {
    in.lengths = lengths.typed_data();
    check(ends_in(lengths, g, {in.batch}), "wrong lengths");
  }
  if (present(resets)) {
    in.resets = resets.typed_data();
    check(ends_in(resets, g, {in.batch, in.length}), "wrong resets");
  }
  return in;
}

const float* floats(const States& state) {
  return reinterpret_cast<const float*>(state.typed_data());
}
float* floats(ffi::Result<States>& state) { return reinterpret_cast<float*>(state->typed_data()); }

ffi::Error run_layer(ffi::ThreadPool pool, Floats x, Floats project, Floats parameters, Floats mix,
                     Floats skip, Integers lengths, Truths resets, States first,
                     ffi::Result<Floats> y, ffi::Result<States> last,
                     ffi::Result<Floats> checkpoints, int64_t chunk) {
  Check check;
  const LayerInputs in =
      inputs(x, project, parameters, mix, skip, lengths, resets, chunk, check);
  if (check.failed()) return check.error();
  const int64_t g = in.groups, b = in.batch, d = in.units;
  check(ends_in(first, g, {b, d}) && ends_in(*last, g, {b, d}), "wrong state");
  check(ends_in(*y, g, {b, in.length, d}), "wrong result");
  check(!present(*checkpoints) || ends_in(*checkpoints, g, {b, in.chunks(), 2 * d}),
        "wrong checkpoints");
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*y);
    const LayerOutputs out{y->typed_data(), floats(last),
                           present(*checkpoints) ? checkpoints->typed_data() : nullptr};
    layer_forward(in, floats(first), out, runner(pool));
  });
}

ffi::Error run_layer_gradient(ffi::ThreadPool pool, Floats x, Floats project, Floats parameters,
                              Floats mix, Floats skip, Integers lengths, Truths resets,
                              Floats checkpoints, Floats dy, States dlast, ffi::Result<Floats> dx,
                              ffi::Result<Floats> dproject, ffi::Result<Floats> dparameters,
                              ffi::Result<Floats> dmix, ffi::Result<Floats> dskip,
                              ffi::Result<States> dfirst, int64_t chunk) {
  Check check;
  const LayerInputs in =
      inputs(x, project, parameters, mix, skip, lengths, resets, chunk, check);
  if (check.failed()) return check.error();
  const int64_t g = in.groups, b = in.batch, m = in.inputs, d = in.units;
  check(ends_in(checkpoints, g, {b, in.chunks(), 2 * d}), "wrong checkpoints");
  check(ends_in(dy, g, {b, in.length, d}), "wrong cotangent");
  check(ends_in(dlast, g, {b, d}) && ends_in(*dfirst, g, {b, d}), "wrong cotangent of the state");
  check(ends_in(*dx, g, {b, in.length, m}), "wrong gradient of the inputs");
  check(ends_in(*dproject, g, {m, 2 * d}) && ends_in(*dparameters, g, {3, d}) &&
            ends_in(*dmix, g, {2 * d, d}) && ends_in(*dskip, g, {m, d}),
        "wrong gradient of the weights");
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*dx);
    const LayerCotangents given{checkpoints.typed_data(), dy.typed_data(), floats(dlast)};
    const LayerGradients out{dx->typed_data(),          dproject->typed_data(),
                             dparameters->typed_data(), dmix->typed_data(),
                             dskip->typed_data(),       floats(dfirst)};
    layer_backward(in, given, out, runner(pool));
  });
}

auto bind_inputs() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<Floats>()     // x
      .Arg<Floats>()     // projection
      .Arg<Floats>()     // parameters
      .Arg<Floats>()     // mix
      .Arg<Floats>()     // skip
      .Arg<Integers>()   // lengths
      .Arg<Truths>();    // resets
}
auto bind_forward() {
  return bind_inputs()
      .Arg<States>()  // first
      .Ret<Floats>()  // y
      .Ret<States>()  // last
      .Ret<Floats>()  // checkpoints
      .Attr<int64_t>("chunk");
}
auto bind_backward() {
  return bind_inputs()
      .Arg<Floats>()  // checkpoints
      .Arg<Floats>()  // cotangent of y
      .Arg<States>()  // cotangent of the last state
      .Ret<Floats>()  // gradient of x
      .Ret<Floats>()  // of the projection
      .Ret<Floats>()  // of the parameters
      .Ret<Floats>()  // of the mix
      .Ret<Floats>()  // of the skip
      .Ret<States>()  // of the first state
      .Attr<int64_t>("chunk");
}

}  // namespace
}  // namespace persistor

XLA_FFI_DEFINE_HANDLER_SYMBOL(lru_layer_forward, persistor::run_layer, persistor::bind_forward());
XLA_FFI_DEFINE_HANDLER_SYMBOL(lru_layer_backward, persistor::run_layer_gradient,
                              persistor::bind_backward());
