#pragma once

inline unsigned rows_of(const task::Args& args) { return static_cast<unsigned>(args.x_d0); }
