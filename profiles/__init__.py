"""Where a step's time goes: traces taken and read, steps broken down, ranks compared."""
