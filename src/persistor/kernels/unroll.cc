// The kernels of recurrence.h as functions that XLA can call, through its foreign function interface.
//
// An absent operand or result has no elements. Leading axes are (groups, batch, ..); what the
// sequences of a group share has a leading axis of `groups`, or of 1 where all groups share it.

#include "calls.h"
#include "recurrence.h"

namespace persistor {
namespace {

using Integers = ffi::Buffer<ffi::S32>;
using Truths = ffi::Buffer<ffi::PRED>;
using States = ffi::AnyBuffer;  // float32 or complex64

// An operand that a group's sequences share, with these axes after the leading one.
Shared shared(const Floats& buffer, std::initializer_list<int64_t> shape, int64_t groups,
              const char* what, Check& check) {
  if (!present(buffer)) return {};
  const auto dimensions = buffer.dimensions();
  const int64_t lead = dimensions.size() ? dimensions[0] : 0;
  check(dimensions.size() == shape.size() + 1 && (lead == 1 || lead == groups) &&
            std::equal(shape.begin(), shape.end(), dimensions.begin() + 1),
        what);
  const int64_t size = static_cast<int64_t>(buffer.element_count()) / std::max<int64_t>(1, lead);
  return {buffer.typed_data(), lead == 1 ? 0 : size};
}

template <class Cell>
bool is_state(const States& buffer) {
  return buffer.element_type() == (Cell::parts == 2 ? ffi::C64 : ffi::F32);
}

// `state` is any operand of shape (groups, batch, .., units).
template <class Cell>
Inputs inputs(const Floats& projections, const Integers& ids, const Floats& offsets,
              const Floats& gain, const Floats& shift, const Floats& parameters,
              const Integers& lengths, const Truths& resets, const States& state, int64_t chunk,
              Check& check) {
  Inputs in{};
  const auto lead = state.dimensions();
  const auto given = projections.dimensions();
  const bool indexed = present(ids);
  check(is_state<Cell>(state) && lead.size() >= 3 && present(state), "wrong first state");
  check(given.size() == (indexed ? 3 : 4) && present(projections), "wrong projections");
  check(!indexed || ids.dimensions().size() == 3, "wrong ids");
  check(chunk > 0, "wrong chunk");
  if (check.failed()) return in;
  in.groups = lead[0];
  in.batch = lead[1];
  in.units = lead[lead.size() - 1];
  in.length = indexed ? ids.dimensions()[2] : given[2];
  in.values = indexed ? given[1] : 0;
  in.chunk = chunk;
  const int64_t p = Cell::projections * in.units;
  if (indexed) {
    in.rows = shared(projections, {in.values, p}, in.groups, "wrong rows", check);
    in.ids = ids.typed_data();
    check(has_shape(ids, {in.groups, in.batch, in.length}), "wrong ids");
  } else {
    in.dense = projections.typed_data();
    check(has_shape(projections, {in.groups, in.batch, in.length, p}), "wrong projections");
  }
  in.offsets = shared(offsets, {in.length, p}, in.groups, "wrong offsets", check);
  in.gain = shared(gain, {in.values, in.length}, in.groups, "wrong gain", check);
  in.shift = shared(shift, {p}, in.groups, "wrong shift", check);
  check(present(gain) == present(shift) && (!present(gain) || present(offsets)) &&
            (!present(offsets) || indexed),
        "gain and shift come together, with offsets, and these with ids");
  in.parameters =
      shared(parameters, {Cell::parameters, in.units}, in.groups, "wrong parameters", check);
  check(Cell::parameters == 0 || present(parameters), "wrong parameters");
  if (present(lengths)) {
    in.lengths = lengths.typed_data();
    check(has_shape(lengths, {in.groups, in.batch}), "wrong lengths");
  }
  if (present(resets)) {
    in.resets = resets.typed_data();
    check(has_shape(resets, {in.groups, in.batch, in.length}), "wrong resets");
  }
  if (!check.failed()) check(in.ids_in_range(), "an id is out of range: ids index the rows");
  return in;
}

float* floats(const States& buffer) {
  return present(buffer) ? static_cast<float*>(buffer.untyped_data()) : nullptr;
}
float* floats(ffi::Result<Floats>& buffer) {
  return present(*buffer) ? buffer->typed_data() : nullptr;
}

template <class Cell>
ffi::Error run_forward(ffi::ThreadPool pool, Floats projections, Integers ids, Floats offsets,
                       Floats gain, Floats shift, Floats parameters, Integers lengths,
                       Truths resets, States first, ffi::Result<States> states,
                       ffi::Result<States> last, ffi::Result<States> checkpoints, int64_t chunk) {
  Check check;
  const Inputs in = inputs<Cell>(projections, ids, offsets, gain, shift, parameters, lengths,
                                 resets, first, chunk, check);
  if (check.failed()) return check.error();
  check(has_shape(first, {in.groups, in.batch, in.units}), "wrong first state");
  check(is_state<Cell>(*last) && has_shape(*last, {in.groups, in.batch, in.units}),
        "wrong last state");
  check(is_state<Cell>(*states) &&
            (!present(*states) || has_shape(*states, {in.groups, in.batch, in.length, in.units})),
        "wrong states");
  check(is_state<Cell>(*checkpoints) &&
            (!present(*checkpoints) ||
             has_shape(*checkpoints, {in.groups, in.batch, in.chunks(), in.units})),
        "wrong checkpoints");
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*states);
    const Outputs out{floats(*states), floats(*last), floats(*checkpoints)};
    forward<Cell>(in, floats(first), out, runner(pool));
  });
}

template <class Cell>
ffi::Error run_backward(ffi::ThreadPool pool, Floats projections, Integers ids, Floats offsets,
                        Floats gain, Floats shift, Floats parameters, Integers lengths,
                        Truths resets, States checkpoints, States of_states, States of_last,
                        ffi::Result<Floats> to_projections, ffi::Result<Floats> to_offsets,
                        ffi::Result<Floats> to_gain, ffi::Result<Floats> to_shift,
                        ffi::Result<Floats> to_parameters, ffi::Result<States> to_first,
                        int64_t chunk) {
  Check check;
  const Inputs in = inputs<Cell>(projections, ids, offsets, gain, shift, parameters, lengths,
                                 resets, of_last, chunk, check);
  if (check.failed()) return check.error();
  const int64_t p = Cell::projections * in.units;
  check(is_state<Cell>(checkpoints) &&
            has_shape(checkpoints, {in.groups, in.batch, in.chunks(), in.units}),
        "wrong checkpoints");
  check(has_shape(of_last, {in.groups, in.batch, in.units}), "wrong cotangent of the last state");
  check(is_state<Cell>(of_states) &&
            (!present(of_states) ||
             has_shape(of_states, {in.groups, in.batch, in.length, in.units})),
        "wrong cotangent of the states");
  check(in.ids ? has_shape(*to_projections, {in.groups, in.values, p})
               : has_shape(*to_projections, {in.groups, in.batch, in.length, p}),
        "wrong gradient of the projections");
  check(!in.offsets.data || has_shape(*to_offsets, {in.groups, in.length, p}),
        "wrong gradient of the offsets");
  check(!in.gain.data || (has_shape(*to_gain, {in.groups, in.values, in.length}) &&
                          has_shape(*to_shift, {in.groups, p})),
        "wrong gradient of gain and shift");
  check(has_shape(*to_parameters, {in.groups, Cell::parameters, in.units}),
        "wrong gradient of the parameters");
  check(is_state<Cell>(*to_first) && has_shape(*to_first, {in.groups, in.batch, in.units}),
        "wrong gradient of the first state");
  if (check.failed()) return check.error();
  return attempt([&] {
    expect(*to_projections);
    const Cotangents given{floats(checkpoints), floats(of_states), floats(of_last)};
    Gradients out{};
    (in.ids ? out.rows : out.dense) = floats(to_projections);
    if (in.offsets.data) out.offsets = floats(to_offsets);
    if (in.gain.data) {
      out.gain = floats(to_gain);
      out.shift = floats(to_shift);
    }
    out.parameters = floats(to_parameters);
    out.first = floats(*to_first);
    backward<Cell>(in, given, out, runner(pool));
  });
}

// What forward and backward are both given.
auto bind_inputs() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<Floats>()     // projections, or rows
      .Arg<Integers>()   // ids
      .Arg<Floats>()     // offsets
      .Arg<Floats>()     // gain
      .Arg<Floats>()     // shift
      .Arg<Floats>()     // parameters
      .Arg<Integers>()   // lengths
      .Arg<Truths>();    // resets
}
auto bind_forward() {
  return bind_inputs()
      .Arg<States>()  // first
      .Ret<States>()  // states
      .Ret<States>()  // last
      .Ret<States>()  // checkpoints
      .Attr<int64_t>("chunk");
}
auto bind_backward() {
  return bind_inputs()
      .Arg<States>()  // checkpoints
      .Arg<States>()  // cotangent of the states
      .Arg<States>()  // cotangent of the last state
      .Ret<Floats>()  // gradient of projections, or rows
      .Ret<Floats>()  // of offsets
      .Ret<Floats>()  // of gain
      .Ret<Floats>()  // of shift
      .Ret<Floats>()  // of parameters
      .Ret<States>()  // of the first state
      .Attr<int64_t>("chunk");
}

}  // namespace
}  // namespace persistor

#define PERSISTOR_KERNEL(name, Cell)                                                           \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_forward, persistor::run_forward<persistor::Cell>,       \
                                persistor::bind_forward());                                    \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_backward, persistor::run_backward<persistor::Cell>,     \
                                persistor::bind_backward())

PERSISTOR_KERNEL(cmru, Cmru);
PERSISTOR_KERNEL(alpha_cmru, AlphaCmru);
PERSISTOR_KERNEL(positive_cmru, PositiveCmru);
PERSISTOR_KERNEL(ladder, Ladder);
PERSISTOR_KERNEL(mingru, MinGru);
PERSISTOR_KERNEL(lru, Lru);

// The jaxlib whose headers these kernels were compiled with.
#ifndef PERSISTOR_JAXLIB
#define PERSISTOR_JAXLIB "unknown"
#endif
extern "C" const char* compiled_with() { return PERSISTOR_JAXLIB; }

// How many threads XLA has; 0 before the first call.
extern "C" int64_t threads_of_xla() { return persistor::xla_threads; }

// Whether this machine runs the variant that is compiled for AVX2 and FMA, or for AVX-512.
extern "C" int supports_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return 0;
#endif
}
extern "C" int supports_avx512() {
#if defined(__x86_64__)
  return supports_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw");
#else
  return 0;
#endif
}
