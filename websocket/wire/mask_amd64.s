#include "textflag.h"

// func xorBlocks(p *byte, n int, key uint32)
TEXT ·xorBlocks(SB), NOSPLIT, $0-20
	MOVQ p+0(FP), DI
	MOVQ n+8(FP), CX
	MOVL key+16(FP), AX
	MOVQ AX, X0
	PSHUFD $0, X0, X0 // the key four times

block:
	MOVOU (DI), X1
	MOVOU 16(DI), X2
	MOVOU 32(DI), X3
	MOVOU 48(DI), X4
	PXOR  X0, X1
	PXOR  X0, X2
	PXOR  X0, X3
	PXOR  X0, X4
	MOVOU X1, (DI)
	MOVOU X2, 16(DI)
	MOVOU X3, 32(DI)
	MOVOU X4, 48(DI)
	ADDQ  $64, DI
	SUBQ  $64, CX
	JNZ   block
	RET
