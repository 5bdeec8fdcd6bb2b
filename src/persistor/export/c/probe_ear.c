/* The same for a model that hears. */

#include "NAME.h"

static NAME_ear ear;

void probe_hear(const int16_t *samples, int number, float *output)
{
    NAME_hear_init(&ear);
    NAME_hear(&ear, samples, number);
    NAME_hear_answer(&ear, output);
}
