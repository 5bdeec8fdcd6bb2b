/* Runs the model on the test vectors and compares what it answers with what persistor computed. */

#include <math.h>
#include <stdio.h>

#include "NAME.h"
#include "vectors.h"

int main(void)
{
    static NAME_state state;
    float worst = 0.0f;
    const float *input = vector_inputs;
    for (int i = 0; i < VECTORS; i++) {
        float output[NAME_OUTPUTS];
        NAME_init(&state);
        for (int t = 0; t < vector_steps[i]; t++, input += NAME_INPUTS)
            NAME_step(input, &state);
        NAME_answer(&state, output);
        for (int j = 0; j < NAME_OUTPUTS; j++) {
            const float difference = fabsf(output[j] - vector_outputs[i * NAME_OUTPUTS + j]);
            if (!(difference <= worst))
                worst = difference;
        }
    }
    printf("%d sequences, largest difference %.3g, %.3g is allowed\n", VECTORS, (double)worst,
           (double)TOLERANCE);
    return worst <= TOLERANCE ? 0 : 1;
}
