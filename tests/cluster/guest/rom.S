/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Expansion ROM of a lent device: says on the serial port that a guest's firmware ran it.
 * cluster.py fills it up to its 2 KiB and makes their sum 0.
 */
#define BLOCKS	4
#define COM1	0x3f8

	.code16
	.globl	_start
_start:
	.byte	0x55, 0xaa, BLOCKS
	jmp	run
	.org	0x18
	.word	pcir, pnp

	.org	0x1c
pcir:	.ascii	"PCIR"
	.word	0x1234, 0x11e8		/* the device: edu */
	.word	0, 0x18
	.byte	0, 0, 0xff, 0		/* revision, class code from below */
	.word	BLOCKS, 1
	.byte	0, 0x80			/* for PC firmware; the last image */
	.word	0

	.balign	16
pnp:	.ascii	"$PnP"			/* without it firmware calls a ROM only when it boots */
	.byte	1, 2
	.word	0
	.byte	0, 0xcb			/* the sum of its 32 bytes is 0 */
	.skip	22

run:	pushaw
	mov	$text, %si
next:	mov	%cs:(%si), %ah
	inc	%si
	test	%ah, %ah
	jz	done
	mov	$(COM1 + 5), %dx
busy:	in	(%dx), %al
	test	$0x20, %al
	jz	busy
	mov	%ah, %al
	mov	$COM1, %dx
	out	%al, (%dx)
	jmp	next
done:	popaw
	xor	%ax, %ax
	lretw

text:	.asciz	"DLEND ROM RAN\r\n"
