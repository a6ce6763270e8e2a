"""LSQR, LSMR, CG and their kin."""
