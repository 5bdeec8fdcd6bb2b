// Every kernel on random data of many shapes, in buffers of exactly the right size, so that an
// address sanitizer sees any step beyond them. Prints the number of cases.

#include <cmath>
#include <cstdio>
#include <random>

#include "adamw.h"
#include "lru_layer.h"
#include "pointwise.h"
#include "recurrence.h"

namespace {

using namespace persistor;

std::mt19937 generator(0);

std::vector<float> random_floats(int64_t size) {
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(generator);
  return values;
}

void run_in_order(int64_t tasks, const std::function<void(int64_t)>& task) {
  for (int64_t i = tasks - 1; i >= 0; --i) task(i);
}

bool finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

enum Kind { kDense, kIndexed, kPositions, kNormed };

template <class Cell>
bool one_case(Kind kind, int64_t groups, int64_t batch, int64_t length, int64_t units,
              int64_t values, bool limits, bool every, bool shared) {
  Inputs in{};
  in.groups = groups;
  in.batch = batch;
  in.length = length;
  in.units = units;
  in.values = kind == kDense ? 0 : values;
  in.chunk = std::min<int64_t>(length, 16);
  const int64_t p = Cell::projections * units, S = Cell::parts, many = groups * batch;
  const int64_t lead = shared ? 1 : groups;
  const auto dense = random_floats(kind == kDense ? many * length * p : 0);
  const auto rows = random_floats(lead * values * p), offsets = random_floats(lead * length * p);
  const auto gain = random_floats(lead * values * length), shift = random_floats(lead * p);
  auto parameters = random_floats(lead * Cell::parameters * units);
  for (float& x : parameters) x = std::tanh(x) / 2;
  std::vector<int32_t> ids(many * length), lengths(many);
  for (auto& id : ids) id = generator() % values;
  for (auto& each_length : lengths) {
    each_length = static_cast<int32_t>(generator() % (length + 3)) - 1;
  }
  std::unique_ptr<bool[]> resets(new bool[many * length]);
  for (int64_t i = 0; i < many * length; ++i) resets[i] = generator() % 7 == 0;

  const int64_t each = shared ? 0 : 1;
  in.parameters = {parameters.data(), each * Cell::parameters * units};
  if (kind == kDense) in.dense = dense.data();
  if (kind >= kIndexed) {
    in.rows = {rows.data(), each * values * p};
    in.ids = ids.data();
  }
  if (kind >= kPositions) in.offsets = {offsets.data(), each * length * p};
  if (kind == kNormed) {
    in.gain = {gain.data(), each * values * length};
    in.shift = {shift.data(), each * p};
  }
  if (limits) {
    in.lengths = lengths.data();
    in.resets = resets.get();
  }
  if (!in.ids_in_range()) return false;

  const int64_t state = many * units * S;
  const auto first = random_floats(state);
  std::vector<float> states(every ? length * state : 0), last(state);
  std::vector<float> checkpoints(in.chunks() * state);
  forward<Cell>(in, first.data(), {every ? states.data() : nullptr, last.data(),
                                   checkpoints.data()}, run_in_order);

  const auto of_states = random_floats(states.size()), of_last = random_floats(state);
  std::vector<float> ddense(dense.size()), drows(groups * values * p), dgain, dshift;
  std::vector<float> doffsets(groups * length * p), dfirst(state);
  std::vector<float> dparameters(groups * Cell::parameters * units);
  dgain.resize(groups * values * length);
  dshift.resize(groups * p);
  Gradients out{};
  if (kind == kDense) out.dense = ddense.data();
  if (kind >= kIndexed) out.rows = drows.data();
  if (kind >= kPositions) out.offsets = doffsets.data();
  if (kind == kNormed) {
    out.gain = dgain.data();
    out.shift = dshift.data();
  }
  out.parameters = dparameters.data();
  out.first = dfirst.data();
  const Cotangents given{checkpoints.data(), every ? of_states.data() : nullptr, of_last.data()};
  backward<Cell>(in, given, out, run_in_order);

  const auto results = {&states, &last, &ddense, &drows, &doffsets, &dgain, &dshift,
                        &dparameters, &dfirst};
  return std::all_of(results.begin(), results.end(), [](auto* x) { return finite(*x); });
}

template <class Cell>
int all_cases() {
  int cases = 0;
  const int64_t shapes[][5] = {{1, 1, 1, 1, 1},  {1, 2, 2, 3, 5},   {2, 7, 33, 4, 3},
                               {1, 64, 17, 1, 2}, {3, 9, 40, 33, 2}, {1, 33, 20, 8, 4},
                               {1, 2, 16, 64, 9}, {5, 1, 31, 32, 3}, {1, 70, 5, 100, 2},
                               {2, 70, 33, 4, 9}};
  for (const auto& s : shapes) {
    for (Kind kind : {kDense, kIndexed, kPositions, kNormed}) {
      for (int options = 0; options < 8; ++options) {
        const bool right = one_case<Cell>(kind, s[0], s[1], s[2], s[3], s[4], options & 1,
                                          options & 2, options & 4);
        if (!right) {
          std::fprintf(stderr, "not finite: case %d\n", cases);
          std::exit(1);
        }
        ++cases;
      }
    }
  }
  return cases;
}

int pointwise_cases() {
  int cases = 0;
  const int64_t shapes[][3] = {{1, 1, 1}, {1, 70, 5}, {3, 64, 8}, {2, 129, 12}, {1, 3, 256}};
  for (const auto& s : shapes) {
    const Batched shape{s[0], s[1], s[2]};
    const int64_t size = s[0] * s[1] * s[2], each = s[0] * s[2];
    const auto x = random_floats(2 * size), parameters = random_floats(2 * each);
    const auto dy = random_floats(size);
    std::vector<float> y(size), dx(size), wide(2 * size), one(each), two(each), both(2 * each);
    const float *from = x.data(), *p = parameters.data();
    norm(shape, from, p, p + each, 1e-6f, y.data(), run_in_order);
    norm_gradient(shape, from, p, dy.data(), 1e-6f, dx.data(), one.data(), two.data(),
                  run_in_order);
    bool right = finite(y) && finite(dx) && finite(one) && finite(two);
    glu(shape, from, p, y.data(), run_in_order);
    glu_gradient(shape, from, p, dy.data(), wide.data(), both.data(), run_in_order);
    right = right && finite(y) && finite(wide) && finite(both);
    if (!right) {
      std::fprintf(stderr, "not finite: pointwise case %d\n", cases);
      std::exit(1);
    }
    ++cases;
  }
  return cases;
}

int adamw_cases() {
  std::vector<std::vector<float>> arrays;
  std::vector<Leaf> leaves;
  for (const int64_t size : {0, 1, 5, 300, 16384, 20001}) {
    for (int part = 0; part < 3; ++part) arrays.push_back(random_floats(size));
    arrays.push_back(random_floats(size));
    for (float& x : arrays.back()) x *= x;
  }
  for (size_t i = 0; i < arrays.size(); i += 4) {
    float *gradient = arrays[i].data(), *weight = arrays[i + 1].data();
    float *first = arrays[i + 2].data(), *second = arrays[i + 3].data();
    leaves.push_back({static_cast<int64_t>(arrays[i].size()), 0.1f, gradient, weight, first, second,
                      weight, first, second});
  }
  adamw(leaves, {1.0f, 0.9f, 0.99f, 1e-8f, 0.1f}, 3, run_in_order);
  if (!std::all_of(arrays.begin(), arrays.end(), finite)) {
    std::fprintf(stderr, "not finite: adamw\n");
    std::exit(1);
  }
  return 1;
}

bool one_layer(int64_t groups, int64_t batch, int64_t length, int64_t inputs, int64_t units,
               bool limits) {
  LayerInputs in{};
  in.groups = groups;
  in.batch = batch;
  in.length = length;
  in.inputs = inputs;
  in.units = units;
  in.chunk = std::min<int64_t>(length, 16);
  const int64_t many = groups * batch, m = inputs, d = units;
  const auto x = random_floats(many * length * m), project = random_floats(groups * m * 2 * d);
  auto parameters = random_floats(groups * 3 * d);
  for (float& value : parameters) value = std::tanh(value) / 2;
  const auto mix = random_floats(groups * 2 * d * d), skip = random_floats(groups * m * d);
  std::vector<int32_t> lengths(many);
  for (auto& each : lengths) each = static_cast<int32_t>(generator() % (length + 3)) - 1;
  std::unique_ptr<bool[]> resets(new bool[many * length]);
  for (int64_t i = 0; i < many * length; ++i) resets[i] = generator() % 7 == 0;
  in.x = x.data();
  in.project = project.data();
  in.parameters = parameters.data();
  in.mix = mix.data();
  in.skip = skip.data();
  if (limits) {
    in.lengths = lengths.data();
    in.resets = resets.get();
  }
  const auto first = random_floats(many * 2 * d), dy = random_floats(many * length * d);
  std::vector<float> y(many * length * d), last(many * 2 * d);
  std::vector<float> checkpoints(many * in.chunks() * 2 * d);
  layer_forward(in, first.data(), {y.data(), last.data(), checkpoints.data()}, run_in_order);
  std::vector<float> dx(x.size()), dproject(project.size()), dparameters(parameters.size());
  std::vector<float> dmix(mix.size()), dskip(skip.size()), dfirst(first.size());
  layer_backward(in, {checkpoints.data(), dy.data(), first.data()},
                 {dx.data(), dproject.data(), dparameters.data(), dmix.data(), dskip.data(),
                  dfirst.data()},
                 run_in_order);
  const auto results = {&y, &last, &dx, &dproject, &dparameters, &dmix, &dskip, &dfirst};
  return std::all_of(results.begin(), results.end(), [](auto* a) { return finite(*a); });
}

int layer_cases() {
  int cases = 0;
  const int64_t shapes[][5] = {{1, 1, 1, 1, 1},   {2, 3, 17, 5, 3},   {1, 20, 33, 16, 8},
                               {3, 1, 40, 7, 33}, {1, 17, 16, 64, 64}, {2, 2, 31, 70, 20}};
  for (const auto& s : shapes) {
    for (bool limits : {false, true}) {
      if (!one_layer(s[0], s[1], s[2], s[3], s[4], limits)) {
        std::fprintf(stderr, "not finite: layer case %d\n", cases);
        std::exit(1);
      }
      ++cases;
    }
  }
  return cases;
}

}  // namespace

int main() {
  const int cases = all_cases<Cmru>() + all_cases<AlphaCmru>() + all_cases<PositiveCmru>() +
                    all_cases<Ladder>() + all_cases<MinGru>() + all_cases<Lru>() + pointwise_cases() +
                    layer_cases() + adamw_cases();
  std::printf("%d cases\n", cases);
}
