/* The front end: frames of 512 samples, 160 apart, Hann window, power spectrum, 128 mel bands,
   decibels, 13 coefficients of a cosine transform, rounded to half precision, scaled. A frame is
   measured once, when its last sample is there; what is kept of it are its bands. */

enum { WINDOW = 512, HALF = 256, HOP = 160, BANDS = 128, FRAMES = NAME_FRAMES };
enum { QUARTER = 128, HALVED = 64, TAIL = 5, STEPS = 256, SILENT = -100 * STEPS, RANGE = 80 * STEPS };

/* The Fourier transform of 256 complex numbers, in place; they stand in the order of their digits
   to base 4, the last one first. */
static void transform(float *re, float *im)
{
    for (int size = 1; size < HALF; size *= 4)
        for (int k = 0; k < size; k++) {
            const float *turn = sines + k * (QUARTER / size), *twice = turn + k * (QUARTER / size);
            const float *thrice = twice + k * (QUARTER / size);
            const float ac = turn[QUARTER], as = -*turn, bc = twice[QUARTER], bs = -*twice;
            const float cc = thrice[QUARTER], cs = -*thrice;
            for (int i = k; i < HALF; i += 4 * size) {
                float *x = re + i, *y = im + i;
                const int j = 2 * size, l = 3 * size;
                const float ar = x[size] * ac - y[size] * as, ai = x[size] * as + y[size] * ac;
                const float br = x[j] * bc - y[j] * bs, bi = x[j] * bs + y[j] * bc;
                const float cr = x[l] * cc - y[l] * cs, ci = x[l] * cs + y[l] * cc;
                const float pr = x[0] + br, pi = y[0] + bi, qr = x[0] - br, qi = y[0] - bi;
                const float rr = ar + cr, ri = ai + ci, sr = ar - cr, si = ai - ci;
                x[0] = pr + rr;
                y[0] = pi + ri;
                x[size] = qr + si;
                y[size] = qi - sr;
                x[j] = pr - rr;
                y[j] = pi - ri;
                x[l] = qr - si;
                y[l] = qi + sr;
            }
        }
}

/* The power spectrum of 512 samples, from the transform of even + i odd ones: 257 numbers, in place
   of the real parts. */
static void spectrum(float *re, const float *im)
{
    for (int k = 0; k <= QUARTER; k++) {
        const int j = (HALF - k) % HALF;
        const float c = sines[k + QUARTER], s = -sines[k];
        const float even_re = 0.5f * (re[k] + re[j]), even_im = 0.5f * (im[k] - im[j]);
        const float odd_re = 0.5f * (im[k] + im[j]), odd_im = 0.5f * (re[j] - re[k]);
        const float a = odd_re * c - odd_im * s, b = odd_re * s + odd_im * c;
        const float up_re = even_re + a, up_im = even_im + b;
        const float down_re = even_re - a, down_im = even_im - b;
        re[k] = up_re * up_re + up_im * up_im;
        re[HALF - k] = down_re * down_re + down_im * down_im;
    }
}

/* A number in half precision, as the features were in training; rounded to even. */
static float half(float x)
{
    union {
        float number;
        uint32_t bits;
    } rounded;
    rounded.number = x;
    rounded.bits += 0xfffu + ((rounded.bits >> 13) & 1u);
    rounded.bits &= ~(uint32_t)0x1fffu;
    return rounded.number;
}

/* Ten times the logarithm to base 10 of a positive number, within 1e-5. */
static float decibels(float x)
{
    union {
        float number;
        uint32_t bits;
    } split;
    split.number = x;
    const uint32_t places = split.bits - 0x3f3504f3u; /* from the root of a half */
    split.bits = (places & 0x7fffffu) + 0x3f3504f3u;
    const float exponent = (float)((int32_t)(places >> 23) - ((places >> 31) ? 512 : 0));
    const float t = (split.number - 1.0f) / (split.number + 1.0f), square = t * t;
    const float series = t * (1.0f + square * (1.0f / 3 + square * (0.2f + square * (1.0f / 7))));
    return 3.01029996f * exponent + 8.68588964f * series;
}

/* The Hann window, over 2^15, so that samples lie in [-1, 1). */
static float window(int i)
{
    return 0x1p-16f - 0x1p-16f * sines[i + QUARTER];
}

/* The bands of a frame of samples, in 256ths of a decibel; silence follows the last of them. */
static void measure(const int16_t *samples, int32_t number, int16_t *level)
{
    float re[HALF + 1], im[HALF];
    int to = 0;
    for (int a = 0; a < 8; a += 2)
        for (int b = a; b < 32; b += 8)
            for (int c = b; c < 128; c += 32)
                for (int i = c; i < WINDOW; i += 128, to++) {
                    re[to] = i < number ? (float)samples[i] * window(i) : 0.0f;
                    im[to] = i + 1 < number ? (float)samples[i + 1] * window(i + 1) : 0.0f;
                }
    transform(re, im);
    spectrum(re, im);
    const float *weight = mel_weights;
    for (int band = 0; band < BANDS; band++) {
        const float *bin = re + mel_starts[band], *end = bin + mel_sizes[band];
        float sum = 0.0f;
        while (bin < end)
            sum += *weight++ * *bin++;
        const float steps = (float)STEPS * decibels(sum > 1e-10f ? sum : 1e-10f);
        level[band] = (int16_t)(steps < 0.0f ? steps - 0.5f : steps + 0.5f);
    }
}

/* What the model reads of a frame: no band is more than 80 decibels below the loudest. The sums and
   differences of opposite bands go into `folded`, for the transform repeats itself. */
static void describe(const int16_t *level, int32_t loudest, float *folded, float *input)
{
    const int32_t least = loudest - RANGE;
    for (int i = 0; i < HALVED; i++) {
        const int32_t a = level[i] > least ? level[i] : least;
        const int32_t b = level[BANDS - 1 - i] > least ? level[BANDS - 1 - i] : least;
        folded[i] = (float)(a + b);
        folded[HALVED + i] = (float)(a - b);
    }
    for (int i = 0; i < NAME_INPUTS; i++) {
        const float *part = folded + (i % 2 ? HALVED : 0), *row = transform_rows[i];
        float sum = 0.0f;
        for (int j = 0; j < HALVED; j++)
            sum += row[j] * part[j];
        input[i] = (half(sum) - mean[i]) / deviation[i];
    }
}

/* The loudest band, or the loudest so far. */
static int32_t louder(const int16_t *level, int32_t loudest)
{
    for (int band = 0; band < BANDS; band++)
        if (level[band] > loudest)
            loudest = level[band];
    return loudest;
}

void NAME_hear_init(NAME_ear *ear)
{
    for (int i = 0; i < WINDOW; i++)
        ear->recent[i] = 0;
    ear->filled = HALF; /* the first frame begins in the silence before the first sample */
    ear->next = 0;
    ear->measured = 0;
}

void NAME_hear(NAME_ear *ear, const int16_t *samples, int number)
{
    for (int i = 0; i < number; i++) {
        ear->recent[ear->filled++] = samples[i];
        if (ear->filled < WINDOW)
            continue;
        measure(ear->recent, WINDOW, ear->levels[ear->next]);
        ear->next = (ear->next + 1) % FRAMES;
        ear->measured += ear->measured < FRAMES;
        ear->filled = WINDOW - HOP;
        for (int j = 0; j < WINDOW - HOP; j++)
            ear->recent[j] = ear->recent[j + HOP];
    }
}

void NAME_hear_answer(const NAME_ear *ear, float *output)
{
    int16_t tail[TAIL][BANDS];
    float folded[BANDS], input[NAME_INPUTS];
    NAME_state state;
    const int32_t whole = (NAME_CLIP + HALF - ear->filled) / HOP; /* frames of the clip that ended */
    const int32_t known = whole < ear->measured ? whole : ear->measured;
    const int32_t begin = ear->next - known + (ear->next < known ? FRAMES : 0);
    const int32_t open = FRAMES - known < TAIL ? FRAMES - known : TAIL;
    int32_t loudest = SILENT;
    for (int32_t i = 0; i < open; i++) {
        const int32_t from = i * HOP < ear->filled ? i * HOP : ear->filled;
        measure(ear->recent + from, ear->filled - from, tail[i]);
        loudest = louder(tail[i], loudest);
    }
    for (int32_t i = 0; i < known; i++)
        loudest = louder(ear->levels[(begin + i) % FRAMES], loudest);
    NAME_init(&state);
    for (int32_t i = 0; i < FRAMES; i++) {
        const int32_t later = i - known < TAIL ? i - known : TAIL - 1;
        const int16_t *level = i < known ? ear->levels[(begin + i) % FRAMES] : tail[later];
        describe(level, loudest, folded, input);
        NAME_step(input, &state);
    }
    NAME_answer(&state, output);
}
