#include "textflag.h"

// func Value(v any)
TEXT ·Value(SB), NOSPLIT, $0-16
	MOVQ v_data+8(FP), AX
	TESTQ AX, AX
	JZ none
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
none:
	RET

// func Wide(v any)
TEXT ·Wide(SB), NOSPLIT, $0-16
	MOVQ v_data+8(FP), AX
	TESTQ AX, AX
	JZ none
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	PREFETCHT0 256(AX)
	PREFETCHT0 320(AX)
none:
	RET
