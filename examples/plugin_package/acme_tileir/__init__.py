"""Extensions of tileir: an op, its lowering rule, a pass and a target."""
