"""A solution as a function, also in time: its report, pictures, files and exports."""
