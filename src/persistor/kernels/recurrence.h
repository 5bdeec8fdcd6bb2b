// The recurrence of every cell, forward and backward, on a CPU: h_t = decay_t * h_{t-1} + drive_t, or
// for a ladder the same between two ends.
//
// A cell is two small functions on vectors of eight units: `gate` (projections to decay and drive)
// and `gradient` (its transpose). Everything else is written once:
//
//   forward   fetch projections -> gate -> mask -> unroll
//   backward  the same again from a stored state -> unroll backwards -> gradient -> scatter
//
// Time goes in chunks that fit in the cache; the state before each chunk is a checkpoint, all that
// the backward pass needs. A strip is up to 32 lanes side by side: units of one sequence, or all
// units of several sequences where there are few. Where a part of the batch has many more sequences
// than there are distinct values, gates and their gradients are computed once per value and
// position (`Table`) instead of once per sequence and position.
//
// How work is divided depends on shapes alone, and partial sums are added in a fixed order: the
// number of threads does not change a bit of any result.
//
// transitions.h has one step of a state, cells.h the gates, inputs.h what a call is given, division.h
// who does what, and unroller.h what forward.h and backward.h share.

#pragma once

#include "backward.h"
#include "cells.h"
#include "forward.h"
