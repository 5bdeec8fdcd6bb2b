/* Written by persistor. A model that reads NAME_INPUTS numbers a step and gives NAME_OUTPUTS.

     NAME_state state;
     NAME_init(&state);
     for every step: NAME_step(input, &state);
     NAME_answer(&state, output);

   An answer may be asked for after any step, as often as you like: it is what the model says if the
   sequence ends here. Nothing is allocated, and every state is yours: keep as many as you like. */

#ifndef NAME_H
#define NAME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NAME_INPUTS INPUT_COUNT
#define NAME_OUTPUTS OUTPUT_COUNT

typedef struct {
/*MEMBERS*/
} NAME_state;

/* The state before the first step. */
void NAME_init(NAME_state *state);

/* One step: NAME_INPUTS numbers. */
void NAME_step(const float *input, NAME_state *state);

/* NAME_OUTPUTS numbers: of classes, the logarithms of their likelihoods up to a constant. */
void NAME_answer(const NAME_state *state, float *output);

/*OPTIONAL*/
#ifdef __cplusplus
}
#endif

#endif
