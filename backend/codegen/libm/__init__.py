"""Mathematical functions as formulas over the values of one thread, for f32 and f64."""
