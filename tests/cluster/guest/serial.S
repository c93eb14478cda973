/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The serial port, for code that firmware runs; the same text in 16 and in 64 bits.
 */
#define COM1	0x3f8

/* The low four bits of AL, as a digit */
	.macro	PUT_DIGIT
	and	$0xf, %al
	add	$'0', %al
	cmp	$'9', %al
	jbe	0f
	add	$('a' - '9' - 1), %al
0:	call	put
	.endm

/* say: the string at SI (RSI); put: the character in AL.  Both change AX and DX. */
	.macro	SERIAL_ROUTINES
say:	lodsb
	test	%al, %al
	jz	0f
	call	put
	jmp	say
put:	mov	%al, %ah
	mov	$(COM1 + 5), %dx
1:	in	(%dx), %al
	test	$0x20, %al
	jz	1b
	mov	%ah, %al
	mov	$COM1, %dx
	out	%al, (%dx)
0:	ret
	.endm
