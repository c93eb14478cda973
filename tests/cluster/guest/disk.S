/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boot sector of a lent disk: reads the 64 KiB behind it with the firmware's own driver, adds them
 * up as 32-bit words, and says the sum on the serial port.
 */
#include "serial.S"

#define PART	16			/* sectors in one call */
#define CALLS	8
#define BUFFER	0x8000

	.code16
	.globl	_start
_start:
	cli
	xor	%ax, %ax
	mov	%ax, %ds
	mov	%ax, %es
	mov	%ax, %ss
	mov	$_start, %sp
	sti
	cld
	mov	%dl, drive
read:	mov	$0x42, %ah
	mov	drive, %dl
	mov	$packet, %si
	int	$0x13
	jc	failed
	mov	$BUFFER, %si
	mov	$(PART * 512 / 4), %cx
add:	lodsl
	add	%eax, sum
	loop	add
	addw	$PART, packet + 8
	decb	calls
	jnz	read

	mov	$good, %si
	call	say
	mov	$8, %cx
digit:	roll	$4, sum
	mov	sum, %al
	PUT_DIGIT
	loop	digit
	mov	$end, %si
	call	say
stop:	hlt
	jmp	stop
failed:	mov	$bad, %si
	call	say
	jmp	stop

	SERIAL_ROUTINES

good:	.asciz	"DLEND BOOT "
bad:	.asciz	"DLEND BOOT failed"
end:	.asciz	"\r\n"
calls:	.byte	CALLS
drive:	.byte	0
	.balign	4
sum:	.long	0
packet:	.byte	16, 0
	.word	PART, BUFFER, 0
	.quad	1
	.org	510
	.word	0xaa55
