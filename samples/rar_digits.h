/* SPDX-License-Identifier: GPL-2.0 */
/* The logs that rar_digits writes and rar_digits_check reads. */
#ifndef RAR_DIGITS_H
#define RAR_DIGITS_H

enum {
	PIXELS = 64,		/* 8 x 8, 0 .. 16 */
	HIDDEN = 32,
	CLASSES = 10,
	CHECK_EVERY = 50,	/* steps between logs of gradient and sum */
};

/* Weights, their gradient and their velocity have the same shape. */
struct model {
	float w1[PIXELS][HIDDEN];
	float b1[HIDDEN];
	float w2[HIDDEN][CLASSES];
	float b2[CLASSES];
};

#define WEIGHTS (sizeof(struct model) / sizeof(float))

/*
 * Files in the log directory, by rank R and step S:
 *	hash.R		a line "S hash" with the weights before step S
 *	grad.S.R	gradient that R sent in step S, a struct model
 *	sum.S.R		sum that R received in step S, a struct model
 */

#endif /* RAR_DIGITS_H */
