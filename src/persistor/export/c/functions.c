/* What a model is made of, in C99. The writer copies the functions that a model needs, each with
   the comment above it. W of a float map stands input by input, W of an int8 map output by output. */

/*: map float */
/* y = from + bias + x W, where `from` and the bias may be absent. */
typedef struct {
    const float *weights;
    const float *bias;
    int inputs, outputs;
} map;

/*: apply float needs map float */
/* Eight sums at a time, which stay in registers. */
static void eight(const float *w, const float *x, int inputs, int outputs, float *y)
{
    float a = y[0], b = y[1], c = y[2], d = y[3], e = y[4], f = y[5], g = y[6], h = y[7];
    for (int i = 0; i < inputs; i++, w += outputs) {
        const float v = x[i];
        a += v * w[0];
        b += v * w[1];
        c += v * w[2];
        d += v * w[3];
        e += v * w[4];
        f += v * w[5];
        g += v * w[6];
        h += v * w[7];
    }
    y[0] = a;
    y[1] = b;
    y[2] = c;
    y[3] = d;
    y[4] = e;
    y[5] = f;
    y[6] = g;
    y[7] = h;
}

static void apply(const map *f, const float *x, const float *from, float *y)
{
    const int n = f->outputs;
    int j;
    for (j = 0; j < n; j++)
        y[j] = (from ? from[j] : 0.0f) + (f->bias ? f->bias[j] : 0.0f);
    for (j = 0; j + 8 <= n; j += 8)
        eight(f->weights + j, x, f->inputs, n, y + j);
    for (; j < n; j++) {
        float sum = y[j];
        for (int i = 0; i < f->inputs; i++)
            sum += x[i] * f->weights[i * n + j];
        y[j] = sum;
    }
}

/*: map int8 */
/* y = from + bias + x W, where `from` and the bias may be absent; row j of W is scales[j] times
   int8. */
typedef struct {
    const int8_t *weights;
    const float *scales;
    const float *bias;
    int inputs, outputs;
} map;

/*: apply int8 needs map int8 */
/* Four sums at a time share what they read. */
static void four(const int8_t *w, const int16_t *x, int n, int32_t *sums)
{
    const int8_t *v = w + n, *u = v + n, *t = u + n;
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (int i = 0; i < n; i++) {
        const int32_t shared = x[i];
        a += w[i] * shared;
        b += v[i] * shared;
        c += u[i] * shared;
        d += t[i] * shared;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* The inputs become integers of up to 16 bits, as large as their int32 sums allow. */
static void apply(const map *f, const float *x, const float *from, float *y)
{
    int16_t rounded[LARGEST_INPUT];
    const int32_t room = INT32_MAX / (127 * f->inputs);
    const float limit = (float)(room < INT16_MAX ? room : INT16_MAX);
    float largest = 1e-30f;
    for (int i = 0; i < f->inputs; i++)
        if (fabsf(x[i]) > largest)
            largest = fabsf(x[i]);
    const float unit = largest / limit, units = limit / largest;
    for (int i = 0; i < f->inputs; i++) { /* a positive number is rounded without a branch */
        const float v = x[i] * units;
        rounded[i] = (int16_t)((int32_t)((v == v ? v : 0.0f) + 32768.5f) - 32768); /* NaN is 0 */
    }
    const int8_t *w = f->weights;
    for (int j = 0; j < f->outputs; j += 4) {
        const int rows = f->outputs - j < 4 ? f->outputs - j : 4;
        int32_t sums[4] = {0, 0, 0, 0};
        if (rows == 4)
            four(w, rounded, f->inputs, sums);
        else
            for (int k = 0; k < rows; k++)
                for (int i = 0; i < f->inputs; i++)
                    sums[k] += w[k * f->inputs + i] * rounded[i];
        for (int k = 0; k < rows; k++, w += f->inputs)
            y[j + k] = (from ? from[j + k] : 0.0f) + (f->bias ? f->bias[j + k] : 0.0f)
                + (float)sums[k] * (f->scales[j + k] * unit);
    }
}

/*: loud */
static void loud(const float *x, float loudness, int n, float *u)
{
    float mean = 0.0f, variance = 0.0f;
    for (int i = 0; i < n; i++)
        mean += x[i];
    mean /= (float)n;
    for (int i = 0; i < n; i++) {
        const float v = x[i] - mean;
        variance += v * v;
    }
    variance /= (float)n;
    const float volume = sqrtf(variance / (variance + loudness));
    for (int i = 0; i < n; i++)
        u[i] *= volume;
}

/*: norm */
/* y = scale (x - mean) / sqrt(variance + epsilon) + shift; y may be x. */
static void norm(const float *x, const float *scale, const float *shift, float epsilon, int n,
                 float *y)
{
    float mean = 0.0f, variance = 0.0f;
    for (int i = 0; i < n; i++)
        mean += x[i];
    mean /= (float)n;
    for (int i = 0; i < n; i++) {
        const float v = x[i] - mean;
        variance += v * v;
    }
    const float gain = 1.0f / sqrtf(variance / (float)n + epsilon);
    for (int i = 0; i < n; i++)
        y[i] = scale[i] * ((x[i] - mean) * gain) + shift[i];
}

/*: sigmoid */
static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/*: glu needs sigmoid */
/* The first n of 2 n numbers become themselves times the sigmoid of the others. */
static void gate(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= sigmoid(x[n + i]);
}

/*: silu needs sigmoid */
/* The first n of 2 n numbers become themselves times the SiLU of the others. */
static void gate(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= x[n + i] * sigmoid(x[n + i]);
}

/*: place */
/* Sines, then cosines, of the position times each of n frequencies. */
static void place(uint32_t position, const float *frequencies, int n, float *codes)
{
    for (int i = 0; i < n; i++) {
        const float angle = (float)position * frequencies[i];
        codes[i] = sinf(angle);
        codes[n + i] = cosf(angle);
    }
}

/*: count */
/* kept + update, held at the ends of an int32. */
static int32_t count(int32_t kept, int32_t update)
{
    if (update > 0 && kept > INT32_MAX - update)
        return INT32_MAX;
    if (update < 0 && kept < -INT32_MAX - update)
        return -INT32_MAX;
    return kept + update;
}
