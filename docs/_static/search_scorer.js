// Titles of pages come before names of the reference.
var Scorer = {
  objNameMatch: 4,
  objPartialMatch: 2,
  objPrio: { 0: 3, 1: 1, 2: -5 },
  objPrioDefault: 0,
  title: 20,
  partialTitle: 12,
  term: 5,
  partialTerm: 2,
};
