#include "textflag.h"

// func Value(v any)
TEXT ·Value(SB), NOSPLIT, $0-16
	MOVQ v_data+8(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET
