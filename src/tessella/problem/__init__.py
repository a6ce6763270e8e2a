"""What is to be solved: operators, equations, conditions; is it determined, and how fine is it."""
