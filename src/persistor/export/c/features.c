/* The front end: frames of 512 samples, 160 apart, Hann window, power spectrum, 128 mel bands,
   decibels, 13 coefficients of a cosine transform, rounded to half precision, scaled. */

enum { WINDOW = 512, HALF = 256, HOP = 160, BANDS = 128, FRAMES = 1 + NAME_CLIP / HOP };

/* The Fourier transform of 256 complex numbers, in place. */
static void transform(float *re, float *im)
{
    for (int i = 1, j = 0; i < HALF; i++) {
        int bit = HALF / 2;
        for (; j & bit; bit /= 2)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            const float a = re[i], b = im[i];
            re[i] = re[j];
            im[i] = im[j];
            re[j] = a;
            im[j] = b;
        }
    }
    for (int size = 1; size < HALF; size *= 2)
        for (int k = 0; k < size; k++) {
            const int turn = k * (HALF / size);
            const float c = cosines[turn], s = -cosines[turn < 128 ? 128 - turn : turn - 128];
            for (int i = k; i < HALF; i += 2 * size) {
                const int j = i + size;
                const float a = re[j] * c - im[j] * s, b = re[j] * s + im[j] * c;
                re[j] = re[i] - a;
                im[j] = im[i] - b;
                re[i] += a;
                im[i] += b;
            }
        }
}

/* The power spectrum of 512 samples, from the transform of even + i odd ones: 257 numbers. */
static void spectrum(const float *re, const float *im, float *power)
{
    for (int k = 0; k <= HALF; k++) {
        const int i = k % HALF, j = (HALF - k) % HALF;
        const float c = cosines[k], s = -cosines[k < 128 ? 128 - k : k - 128];
        const float even_re = 0.5f * (re[i] + re[j]), even_im = 0.5f * (im[i] - im[j]);
        const float odd_re = 0.5f * (im[i] + im[j]), odd_im = 0.5f * (re[j] - re[i]);
        const float a = even_re + (odd_re * c - odd_im * s);
        const float b = even_im + (odd_re * s + odd_im * c);
        power[k] = a * a + b * b;
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

/* A sample of the clip, in [-1, 1), times the window; silence lies beyond both ends. */
static float sample(const NAME_ear *ear, int frame, int i)
{
    const int32_t at = (int32_t)frame * HOP - HALF + i;
    if (at < 0 || at >= NAME_CLIP)
        return 0.0f;
    return (float)ear->samples[(ear->first + at) % NAME_CLIP] * 0x1p-15f * window[i];
}

/* Decibels in each band of a frame. */
static void measure(const NAME_ear *ear, int frame, float *level)
{
    float re[HALF], im[HALF], power[HALF + 1];
    for (int i = 0; i < HALF; i++) {
        re[i] = sample(ear, frame, 2 * i);
        im[i] = sample(ear, frame, 2 * i + 1);
    }
    transform(re, im);
    spectrum(re, im, power);
    const float *weight = mel_weights;
    for (int band = 0; band < BANDS; band++) {
        float sum = 0.0f;
        for (int i = 0; i < mel_sizes[band]; i++)
            sum += *weight++ * power[mel_starts[band] + i];
        level[band] = 10.0f * log10f(sum > 1e-10f ? sum : 1e-10f);
    }
}

/* What the model reads of a frame: no band is more than 80 decibels below the loudest. */
static void describe(const float *level, float loudest, float *input)
{
    for (int i = 0; i < NAME_INPUTS; i++) {
        float sum = 0.0f;
        for (int band = 0; band < BANDS; band++) {
            const float quietest = loudest - 80.0f;
            sum += transform_rows[i][band] * (level[band] > quietest ? level[band] : quietest);
        }
        input[i] = (half(sum) - mean[i]) / deviation[i];
    }
}

void NAME_hear_init(NAME_ear *ear)
{
    for (int32_t i = 0; i < NAME_CLIP; i++)
        ear->samples[i] = 0;
    ear->first = 0;
    ear->heard = 0;
}

void NAME_hear(NAME_ear *ear, const int16_t *samples, int number)
{
    for (int i = 0; i < number; i++)
        if (ear->heard < NAME_CLIP) {
            ear->samples[ear->heard++] = samples[i];
        } else {
            ear->samples[ear->first] = samples[i];
            ear->first = (ear->first + 1) % NAME_CLIP;
        }
}

void NAME_hear_answer(const NAME_ear *ear, float *output)
{
    float level[BANDS], input[NAME_INPUTS], loudest = -100.0f;
    NAME_state state;
    for (int frame = 0; frame < FRAMES; frame++) {
        measure(ear, frame, level);
        for (int band = 0; band < BANDS; band++)
            if (level[band] > loudest)
                loudest = level[band];
    }
    NAME_init(&state);
    for (int frame = 0; frame < FRAMES; frame++) {
        measure(ear, frame, level);
        describe(level, loudest, input);
        NAME_step(input, &state);
    }
    NAME_answer(&state, output);
}
