"""How wrong a solution is: defects, the estimate, where to refine."""
