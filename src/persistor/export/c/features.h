#define NAME_CLIP CLIP_SAMPLES /* samples that the model hears at a time, as in training */

/* The last NAME_CLIP samples. They are kept because the features of every frame depend on the
   loudest one of the clip. */
typedef struct {
    int32_t first, heard;
    int16_t samples[NAME_CLIP];
} NAME_ear;

/* Before the first sample. */
void NAME_hear_init(NAME_ear *ear);

/* Any number of samples: 16 kHz, 16 bits. */
void NAME_hear(NAME_ear *ear, const int16_t *samples, int number);

/* NAME_OUTPUTS numbers about the last NAME_CLIP samples; if there are fewer, silence follows. */
void NAME_hear_answer(const NAME_ear *ear, float *output);
