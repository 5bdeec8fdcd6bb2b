/* The same for a model that hears. */

#include "NAME.h"

static NAME_ear ear;

void probe_silence(void)
{
    NAME_hear_init(&ear);
}

void probe_hear(const int16_t *samples, int number)
{
    NAME_hear(&ear, samples, number);
}

void probe_word(float *output)
{
    NAME_hear_answer(&ear, output);
}
