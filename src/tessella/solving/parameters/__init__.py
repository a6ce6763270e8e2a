"""Solutions as functions of parameters, and parameters found from measurements."""
