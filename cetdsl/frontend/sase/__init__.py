"""The text form of a query, in the manner of SASE: its grammar, its parse actions, and its error messages."""

from cetdsl.frontend.sase.reading import grammar as grammar
from cetdsl.frontend.sase.reading import in_parameters as in_parameters
from cetdsl.frontend.sase.reading import parameters_in as parameters_in
from cetdsl.frontend.sase.reading import parse as parse
from cetdsl.frontend.sase.reading import parse_condition as parse_condition
from cetdsl.frontend.sase.reading import parse_constant as parse_constant
from cetdsl.frontend.sase.reading import parse_group as parse_group
from cetdsl.frontend.sase.reading import parse_predicates as parse_predicates
from cetdsl.frontend.sase.reading import parse_queries as parse_queries
from cetdsl.frontend.sase.reading import refuse_unused as refuse_unused
