// Fault: is Python.
// Expected: compile_error
#include "task.h"

import numpy as np

def solve(x):
    return np.exp(x)
