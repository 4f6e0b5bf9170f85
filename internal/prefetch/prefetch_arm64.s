#include "textflag.h"

// func Value(v any)
TEXT ·Value(SB), NOSPLIT, $0-16
	MOVD v_data+8(FP), R0
	CBZ R0, none
	PRFM (R0), PLDL1KEEP
	ADD $64, R0, R1
	PRFM (R1), PLDL1KEEP
none:
	RET

// func Wide(v any)
TEXT ·Wide(SB), NOSPLIT, $0-16
	MOVD v_data+8(FP), R0
	CBZ R0, none
	PRFM (R0), PLDL1KEEP
	ADD $64, R0, R0
	PRFM (R0), PLDL1KEEP
	ADD $64, R0, R0
	PRFM (R0), PLDL1KEEP
	ADD $64, R0, R0
	PRFM (R0), PLDL1KEEP
	ADD $64, R0, R0
	PRFM (R0), PLDL1KEEP
	ADD $64, R0, R0
	PRFM (R0), PLDL1KEEP
none:
	RET
