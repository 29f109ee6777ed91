#include <nb_combined.cpp>  // the part of nanobind that each extension carries
