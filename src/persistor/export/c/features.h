#define NAME_CLIP CLIP_SAMPLES /* samples that the model hears at a time, as in training */
#define NAME_FRAMES FRAME_COUNT

/* The bands of the last frames, in 256ths of a decibel, and the samples of the next frame. Bands are
   kept because the features of every frame depend on the loudest one of the clip. */
typedef struct {
    int32_t filled, next, measured;
    int16_t recent[512], levels[NAME_FRAMES][128];
} NAME_ear;

/* Before the first sample. */
void NAME_hear_init(NAME_ear *ear);

/* Any number of samples: 16 kHz, 16 bits. Every 160 of them make a frame, measured at once. */
void NAME_hear(NAME_ear *ear, const int16_t *samples, int number);

/* NAME_OUTPUTS numbers about the last clip. Of the first NAME_CLIP samples it is what the model says;
   if there are fewer, silence follows. Later a clip begins with a frame, at most 10 ms late, and its
   first two frames also hold what came before it. */
void NAME_hear_answer(const NAME_ear *ear, float *output);
