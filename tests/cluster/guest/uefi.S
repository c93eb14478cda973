/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * UEFI program on a lent disk: adds up the 64 KiB behind it, which came with it through the
 * firmware's own driver, as 32-bit words, and says the sum on the serial port.
 *
 * The file is what the firmware loads, headers included (PE Format, Microsoft; UEFI 2.10, 2.1.1):
 * one section, addresses as in the file, nothing to relocate.
 */
#include "serial.S"

#define BODY	65536
#define ALIGN	0x1000

	.code64
	.globl	_start
_start:	.ascii	"MZ"
	.org	0x3c
	.long	pe
pe:	.ascii	"PE\0\0"
	.word	0x8664, 1		/* x86-64; sections */
	.long	0, 0, 0
	.word	section - optional
	.word	0x022e			/* executable, no lines, symbols or debug data; large addresses */
optional:
	.word	0x20b			/* PE32+ */
	.byte	0, 0
	.long	end - ALIGN, 0, 0	/* sizes: code, data */
	.long	entry, ALIGN		/* entry; where code begins */
	.quad	0			/* base: any, as nothing depends on it */
	.long	ALIGN, ALIGN		/* of sections in memory and in the file */
	.word	0, 0, 0, 0, 0, 0
	.long	0
	.long	end, ALIGN, 0		/* sizes: image, headers; checksum */
	.word	10, 0			/* UEFI application */
	.quad	0, 0, 0, 0
	.long	0, 6
	.quad	0, 0, 0, 0, 0, 0	/* the sixth would be relocations: there are none */
section:
	.ascii	".text\0\0\0"
	.long	end - ALIGN, ALIGN	/* size and place in memory */
	.long	end - ALIGN, ALIGN	/* the same in the file */
	.long	0, 0
	.word	0, 0
	.long	0xe0000020		/* code; may be run, read, written */

	.org	ALIGN
entry:	cld
	lea	body(%rip), %rsi
	mov	$BODY / 4, %ecx
	xor	%ebx, %ebx
add:	lodsl
	add	%eax, %ebx
	loop	add

	lea	good(%rip), %rsi
	call	say
	mov	$8, %ecx
digit:	rol	$4, %ebx
	mov	%ebx, %eax
	PUT_DIGIT
	loop	digit
	lea	eol(%rip), %rsi
	call	say
stop:	pause
	jmp	stop

	SERIAL_ROUTINES

good:	.asciz	"\r\nDLEND UEFI "
eol:	.asciz	"\r\n"

	.balign	ALIGN
body:	.fill	BODY
end:
