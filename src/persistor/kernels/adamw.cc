// The optimiser of adamw.h as a function that XLA can call.
//
// After the rates and the number of earlier steps come all gradients, all weights, all first moments
// and all second ones, of any shapes; the results are weights and moments.

#include "adamw.h"

#include "calls.h"

namespace persistor {
namespace {

ffi::Error run_adamw(ffi::ThreadPool pool, Floats rates, ffi::Buffer<ffi::S32> count,
                     ffi::RemainingArgs given, ffi::RemainingRets results, float clip,
                     float first_decay, float second_decay, float epsilon, float weight_decay) {
  Check check;
  const size_t leaves = rates.element_count();
  check(count.element_count() == 1, "wrong count");
  check(given.size() == 4 * leaves && results.size() == 3 * leaves, "wrong number of arrays");
  if (check.failed()) return check.error();
  std::vector<Leaf> each;
  for (size_t i = 0; i < leaves; ++i) {
    const auto gradient = given.get<Floats>(i);
    const auto size = gradient.has_value() ? gradient->element_count() : 0;
    const auto operand = [&](size_t part) -> const float* {
      const auto buffer = given.get<Floats>(part * leaves + i);
      check(buffer.has_value() && buffer->element_count() == size, "wrong operand");
      return check.failed() ? nullptr : buffer->typed_data();
    };
    const auto result = [&](size_t part) -> float* {
      auto buffer = results.get<Floats>(part * leaves + i);
      check(buffer.has_value() && (*buffer)->element_count() == size, "wrong result");
      return check.failed() ? nullptr : (*buffer)->typed_data();
    };
    each.push_back({static_cast<int64_t>(size), rates.typed_data()[i], operand(0), operand(1),
                    operand(2), operand(3), result(0), result(1), result(2)});
  }
  if (check.failed()) return check.error();
  return attempt([&] {
    adamw(each, {clip, first_decay, second_decay, epsilon, weight_decay},
          count.typed_data()[0] + int64_t{1}, runner(pool));
  });
}

}  // namespace
}  // namespace persistor

XLA_FFI_DEFINE_HANDLER_SYMBOL(adamw, persistor::run_adamw,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<persistor::Floats>()                     // rates
                                  .Arg<xla::ffi::Buffer<xla::ffi::S32>>()       // count
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<float>("clip")
                                  .Attr<float>("first_decay")
                                  .Attr<float>("second_decay")
                                  .Attr<float>("epsilon")
                                  .Attr<float>("weight_decay"));
