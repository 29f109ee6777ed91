// The part of nanobind that an extension carries, compiled apart.
#include <nb_combined.cpp>
