/* Lets a verifying program look inside: whole sequences in one call, and the states as numbers. */

#include <stddef.h>

#include "NAME.h"

static NAME_state state;

static double *states_into(double *number)
{
    /*STATES*/
    return number;
}

void probe_run(const float *inputs, int steps, float *outputs, double *states)
{
    NAME_init(&state);
    for (int t = 0; t < steps; t++) {
        NAME_step(inputs + (ptrdiff_t)t * NAME_INPUTS, &state);
        NAME_answer(&state, outputs + (ptrdiff_t)t * NAME_OUTPUTS);
        states = states_into(states);
    }
}

void probe_repeat(const float *input, int steps)
{
    NAME_init(&state);
    for (int t = 0; t < steps; t++)
        NAME_step(input, &state);
}

int probe_bytes(void)
{
    return (int)sizeof(NAME_state);
}
